//! Reads the state of End User Messaging: the account, its origins and its configuration sets.

use crate::doctor::ReadResult;
use crate::doctor::texts::{Identities, TextFacts};
use tidegate_adapters::aws::SmsAccount;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::in_full;
use tidegate_core::rate::Rate;
use tidegate_delivery::ports::{Clock as _, PortError};

pub(super) async fn facts(stack: &Stack, account: &SmsAccount) -> TextFacts {
    let (poller, allowed) = (&stack.poller, &stack.poller.rules.texts);
    let functions = [&stack.scheduler_function, &stack.poller_function].map(|of| of.name.clone());
    let monitor = stack.clients().monitor(&stack.name, functions);
    TextFacts {
        origins: allowed.origins.0.clone(),
        countries: allowed.countries.0.clone(),
        quota: poller.cap.quota.map(Rate::as_per_second),
        feedback: stack.scheduler.feedback.is_some(),
        attributes: read(account.list("DescribeAccountAttributes", "AccountAttributes").await),
        limits: read(account.list("DescribeSpendLimits", "SpendLimits").await),
        spent: read(monitor.text_spend(stack.clock().wall()).await),
        identities: read(identities(account).await),
        configuration_set: poller.configuration_set.clone(),
        configuration_sets: read(
            account.list("DescribeConfigurationSets", "ConfigurationSets").await,
        ),
    }
}

async fn identities(account: &SmsAccount) -> Result<Identities, PortError> {
    Ok(Identities {
        numbers: account.list("DescribePhoneNumbers", "PhoneNumbers").await?,
        pools: account.list("DescribePools", "Pools").await?,
        sender_ids: account.list("DescribeSenderIds", "SenderIds").await?,
    })
}

fn read<T>(answer: Result<T, PortError>) -> ReadResult<T> {
    answer.map_err(|error| in_full(&error))
}
