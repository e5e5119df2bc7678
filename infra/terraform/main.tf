# The stack is the one of the packages' template, and this module its parameters: CloudFormation changes it, and takes back a
# change that fails.

variable "name" {
  type        = string
  description = "Name of the stack: one per account and region."
  default     = "tidegate"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9-]{0,39}$", var.name))
    error_message = "name is 1 to 40 letters, digits and -, the first a letter."
  }
}

variable "functions" {
  type        = string
  description = "Folder with the functions' zips, such as poller-arm64.zip, which are copied to the bucket; null if they are there. Empty means those of the module."
  default     = ""
}

variable "code_bucket" {
  type        = string
  description = "Bucket, in the stack's region, for the functions' zips and the template; null makes one."
  default     = null
}

variable "code_prefix" {
  type        = string
  description = "What the keys in the bucket begin with; VERSION/poller-arm64.zip and so on follow."
  default     = "tidegate/"
  nullable    = false

  validation {
    condition     = can(regex("^([A-Za-z0-9._-]+/)*$", var.code_prefix))
    error_message = "code_prefix is empty, or words with a / after each, such as tidegate/."
  }
}

variable "doctor" {
  type        = bool
  description = "Whether each plan and apply runs `tidegate doctor` (which must be installed) on the stack, and warns of what it finds."
  default     = false
  nullable    = false
}

variable "tags" {
  type        = map(string)
  description = "Tags of the stack and of all that it makes."
  default     = {}
  nullable    = false
}

data "aws_s3_bucket" "code" {
  count = var.code_bucket == null ? 0 : 1

  bucket = var.code_bucket
}

locals {
  folder = var.functions == "" ? "${path.module}/functions" : var.functions
  zips   = var.functions == null ? [] : [for zip in fileset(local.folder, "*-${var.architecture}*.zip") : zip if endswith(zip, "-sms.zip") == (var.channel == "sms")]

  # Other code has other keys: CloudFormation takes no notice of an object that changed.
  hash   = substr(sha1(join(" ", [for zip in local.zips : filesha1("${local.folder}/${zip}")])), 0, 8)
  prefix = var.functions == null ? var.code_prefix : "${var.code_prefix}${local.hash}/"

  # Attribute by attribute: a resource and a data source are of two types, which no condition may give.
  bucket   = var.code_bucket == null ? aws_s3_bucket.code[0].id : var.code_bucket
  domain   = var.code_bucket == null ? aws_s3_bucket.code[0].bucket_regional_domain_name : data.aws_s3_bucket.code[0].bucket_regional_domain_name
  template = "${path.module}/${var.channel == "sms" ? "template-sms.yaml" : "template.yaml"}"
}

resource "aws_s3_bucket" "code" {
  count = var.code_bucket == null ? 1 : 0

  # A stack's name may be longer than a prefix may be, and have capitals.
  bucket_prefix = "tidegate-code-"
  force_destroy = true
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "code" {
  count = var.code_bucket == null ? 1 : 0

  bucket                  = aws_s3_bucket.code[0].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_object" "functions" {
  for_each = toset(local.zips)

  bucket = local.bucket
  key    = "${local.prefix}${local.tidegate_version}/${each.value}"
  source = "${local.folder}/${each.value}"
}

resource "aws_s3_object" "template" {
  bucket = local.bucket
  key    = "${var.code_prefix}${local.tidegate_version}/${filesha1(local.template)}.yaml"
  source = local.template
}

resource "aws_cloudformation_stack" "this" {
  name         = var.name
  template_url = "https://${local.domain}/${aws_s3_object.template.key}"
  capabilities = ["CAPABILITY_IAM"]
  tags         = var.tags

  parameters = merge(
    { for name, value in local.parameters : name => value if value != null },
    { CodeBucket = local.bucket, CodePrefix = local.prefix },
  )

  lifecycle {
    precondition {
      condition     = var.functions == null || length(local.zips) == 2
      error_message = "functions: the folder has no zips of scheduler and poller for ${var.architecture} and ${var.channel}."
    }
  }

  depends_on = [aws_s3_object.functions]
}

check "doctor" {
  data "external" "doctor" {
    program = var.doctor ? ["sh", "-c", "tidegate doctor --stack \"$1\" >&2; echo \"{\\\"code\\\": \\\"$?\\\"}\"", "sh", aws_cloudformation_stack.this.name] : ["echo", "{\"code\": \"0\"}"]
  }

  assert {
    condition     = data.external.doctor.result.code == "0"
    error_message = "`tidegate doctor --stack ${var.name}` finds something: run it to read what, and the remedy."
  }
}
