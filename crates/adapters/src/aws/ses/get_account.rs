//! Reads the account's quota and state by `GetAccount`.

use aws_sdk_sesv2::Client;
use tidegate_delivery::ports::{AccountStatus, PortError};

use crate::aws::error::{incomplete, port_error};

const OPERATION: &str = "GetAccount";
const RESOURCE: &str = "the account";

pub(super) async fn account(client: &Client) -> Result<AccountStatus, PortError> {
    let answer = client.get_account().send().await;
    let answer = answer.map_err(|error| port_error(OPERATION, RESOURCE, error))?;
    let quota = answer.send_quota().ok_or_else(|| incomplete(OPERATION, RESOURCE, "SendQuota"))?;
    Ok(AccountStatus {
        max_send_rate: quota.max_send_rate(),
        max_24_hour_send: quota.max24_hour_send(),
        sent_last_24_hours: quota.sent_last24_hours(),
        sending_enabled: answer.sending_enabled(),
        spend_limit: None,
    })
}

#[cfg(test)]
mod tests {
    use tidegate_delivery::ports::{Account as _, FailureKind};

    use super::*;
    use crate::aws::ses::SesAccount;
    use crate::aws::tests::fake::{Fake, FakeAnswer};

    const ANSWER: &str = r#"{"DedicatedIpAutoWarmupEnabled":false,"EnforcementStatus":"HEALTHY",
        "ProductionAccessEnabled":true,"SendQuota":{"Max24HourSend":50000.0,"MaxSendRate":14.0,
        "SentLast24Hours":17.0},"SendingEnabled":true}"#;

    #[tokio::test]
    async fn the_account_is_read_from_its_quota_and_state() {
        let ses = Fake::once(200, ANSWER);
        let account = SesAccount::new(&ses.ses()).account().await.unwrap();
        let expected = AccountStatus {
            max_send_rate: 14.0,
            max_24_hour_send: 50_000.0,
            sent_last_24_hours: 17.0,
            sending_enabled: true,
            spend_limit: None,
        };
        assert_eq!(account, expected);
        assert!(ses.seen()[0].path.ends_with("/v2/email/account"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_does_not_answer_at_first_is_asked_again() {
        let answer = FakeAnswer::Http(200, &[], ANSWER.to_owned());
        let ses = Fake::new([FakeAnswer::Break, answer]);
        assert!(SesAccount::new(&ses.ses()).account().await.is_ok());
    }

    #[tokio::test]
    async fn denied_and_incomplete_answers_are_told_apart() {
        let body = r#"{"message":"The security token included in the request is invalid."}"#;
        let headers = &[("x-amzn-errortype", "UnrecognizedClientException")];
        let ses = Fake::new([FakeAnswer::Http(403, headers, body.to_owned())]);
        let error = SesAccount::new(&ses.ses()).account().await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Denied("UnrecognizedClientException".to_owned()));

        let error = SesAccount::new(&Fake::once(200, "{}").ses()).account().await.unwrap_err();
        assert!(error.to_string().contains("an answer without SendQuota"), "{error}");
    }
}
