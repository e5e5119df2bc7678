# Text messages in place of e-mail.

module "tidegate" {
  source = "../.."

  name                 = "texts"
  channel              = "sms"
  origins              = ["+12065550100"]
  allowed_countries    = ["+1"]
  first_campaign_name  = "reminders"
  second_campaign_name = ""
}

output "reminders" {
  description = "The queue that takes the campaign's texts."
  value       = module.tidegate.first_campaign_queue_url
}
