# One campaign, and mail that goes before it.

module "tidegate" {
  source = "../.."

  first_campaign_name  = "news"
  second_campaign_name = ""
  express_queue        = true
  allowed_senders      = ["*@example.org"]
  alarm_email          = "ops@example.org"
}

output "news" {
  description = "The queue that takes the campaign's mail."
  value       = module.tidegate.first_campaign_queue_url
}
