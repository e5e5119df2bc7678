# `tofu test` in the module's folder; no account is needed.

mock_provider "aws" {}

mock_provider "external" {
  mock_data "external" {
    defaults = { result = { code = "0" } }
  }
}

variables {
  functions   = null
  code_bucket = "code"
}

run "defaults_are_taken" {
  command = plan

  assert {
    condition     = aws_cloudformation_stack.this.parameters["Mode"] == "merge" && aws_cloudformation_stack.this.parameters["ExpressQueue"] == "false"
    error_message = "The template's defaults are not given to the stack."
  }

  assert {
    condition     = !contains(keys(aws_cloudformation_stack.this.parameters), "QuotaPerSecond")
    error_message = "A number that is null is given to the stack."
  }
}

run "lists_numbers_and_bools_are_texts" {
  command = plan

  variables {
    allowed_senders  = ["news@example.org", "*@example.net"]
    quota_per_second = 0.5
    express_queue    = true
    audit            = false
    limits           = "gmail.com+googlemail.com=10/s, *=25%"
  }

  assert {
    condition     = aws_cloudformation_stack.this.parameters["AllowedSenders"] == "news@example.org,*@example.net"
    error_message = "A list is not joined."
  }

  assert {
    condition     = aws_cloudformation_stack.this.parameters["QuotaPerSecond"] == "0.5" && aws_cloudformation_stack.this.parameters["ExpressQueue"] == "true" && aws_cloudformation_stack.this.parameters["Audit"] == "off"
    error_message = "A number or a bool is another text."
  }
}

run "what_the_template_refuses_is_refused" {
  command = plan

  variables {
    allowed_senders       = []
    first_campaign_weight = 5001
    limits                = "gmail.com=10/s,"
    quota_per_second      = 0
    rate_margin           = 0.001
    shared_bucket         = "rediss://user:password@bucket.example"
    subnet_ids            = ["subnet-1"]
  }

  expect_failures = [
    var.allowed_senders, var.first_campaign_weight, var.limits, var.quota_per_second, var.rate_margin, var.shared_bucket,
    var.subnet_ids,
  ]
}
