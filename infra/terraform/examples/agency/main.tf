# An agency: each customer is an SES tenant with a campaign, and has a share by weight. The tenants are there already.

locals {
  customers = {
    acme   = { weight = 3 }
    globex = { weight = 1 }
  }
}

module "tidegate" {
  source = "../.."

  campaigns       = "tags"
  allowed_senders = [for customer in keys(local.customers) : "*@${customer}.example"]
  alarms          = "all"
  alarm_email     = "ops@example.org"
}

module "campaign" {
  source   = "../../modules/campaign"
  for_each = local.customers

  stack    = module.tidegate.name
  campaign = each.key
  tenant   = each.key
  weight   = each.value.weight
}

output "queues" {
  description = "Each customer's queue."
  value       = { for customer, campaign in module.campaign : customer => campaign.campaign_queue_url }
}
