# One more campaign, or a priority queue of one, of a stack with `campaigns = "tags"`.

terraform {
  required_version = ">= 1.5.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "tags" {
  type        = map(string)
  description = "Tags of the stack and of all that it makes."
  default     = {}
  nullable    = false
}

resource "aws_cloudformation_stack" "this" {
  name          = "${var.stack}-campaign-${var.campaign}${var.priority == "" ? "" : "-${var.priority}"}"
  template_body = file("${path.module}/template.yaml")
  tags          = var.tags
  parameters    = { for name, value in local.parameters : name => value if value != null }
}
