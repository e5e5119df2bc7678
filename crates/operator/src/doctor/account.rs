use super::{CheckState, Finding, ReadResult, SesFacts, unread};
use tidegate_core::format::{count, rate};

#[derive(Clone, Debug, PartialEq)]
pub struct AccountHealth {
    pub production: bool,
    pub sending: bool,
    pub enforcement: String,
    pub max_send_rate: f64,
    pub max_24_hour_send: f64,
    /// SES's price plan; `None` where SES does not tell it.
    pub price_plan: Option<String>,
}

/// An identity that mails may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderIdentity {
    pub identity: String,
    /// Whether SES has verified it; `None` if SES does not know it.
    pub verified: ReadResult<Option<bool>>,
}

pub(super) fn judge(facts: &SesFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &facts.account {
        Ok(account) => findings.extend(of_account(account)),
        Err(why) => findings.push(unread("SES account", why)),
    }
    findings.extend(facts.senders.iter().map(of_sender));
    if facts.senders.is_empty() {
        findings.push(Finding::of(
            CheckState::Warning,
            "senders",
            "any sender is allowed (TIDEGATE_ALLOWED_SENDERS is not set), so none is checked",
            "set AllowedSenders to the addresses or domains that may send",
        ));
    }
    if let Some((name, there)) = &facts.configuration_set {
        let check = format!("configuration set {name}");
        findings.push(match there {
            Ok(true) => Finding::ok(check, "there"),
            Ok(false) => Finding::of(
                CheckState::Failed,
                check,
                "SES does not know it: every mail that names none is refused",
                "create it, or deploy without TIDEGATE_CONFIGURATION_SET",
            ),
            Err(why) => unread(check, why),
        });
    }
    findings
}

fn of_account(account: &AccountHealth) -> Vec<Finding> {
    let mut findings = vec![if account.production {
        Finding::ok("SES production access", "granted")
    } else {
        Finding::of(
            CheckState::Failed,
            "SES production access",
            "the account is in SES's sandbox: 1 recipient a second, 200 a day, verified recipients only",
            "request production access: SES console, Account dashboard",
        )
    }];
    findings.push(match (account.sending, account.enforcement.as_str()) {
        (true, "HEALTHY" | "") => Finding::ok("SES sending", "enabled"),
        (true, status) => Finding::of(
            CheckState::Warning,
            "SES sending",
            format!("enabled, but the account's status is {status}"),
            "look at the reputation dashboard: SES may pause the account",
        ),
        (false, status) => Finding::of(
            CheckState::Failed,
            "SES sending",
            format!("paused by SES ({status})"),
            "answer the case in the Support Center; the hold `account` goes when SES lets go",
        ),
    });
    let daily = if account.max_24_hour_send < 0.0 {
        "no daily limit".to_owned()
    } else {
        format!("{} a day", count(whole(account.max_24_hour_send)))
    };
    findings.push(if account.max_send_rate > 0.0 {
        Finding::ok("SES quota", format!("{}, {daily}", rate(account.max_send_rate)))
    } else {
        Finding::of(CheckState::Failed, "SES quota", "0/s", "ask SES for a sending quota")
    });
    let check = "SES price plan";
    findings.extend(account.price_plan.as_deref().map(|plan| match plan {
        "NONE" => Finding::ok(check, "NONE: a price per recipient"),
        plan => Finding::of(
            CheckState::Warning,
            check,
            format!("{plan}: forecasts and the console calculate with SES's price without a plan"),
            "give them yours, per 1,000 recipients: --ses-price (https://aws.amazon.com/ses/pricing/)",
        ),
    }));
    findings
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; a float casts to the nearest that fits"
)]
fn whole(recipients: f64) -> u64 {
    recipients as u64
}

fn of_sender(sender: &SenderIdentity) -> Finding {
    let check = format!("sender {}", sender.identity);
    match &sender.verified {
        Ok(Some(true)) => Finding::ok(check, "verified"),
        Ok(Some(false)) => Finding::of(
            CheckState::Failed,
            check,
            "SES has not verified it: its mails are refused",
            "publish the DKIM records that SES shows for it, or follow the link in SES's mail",
        ),
        Ok(None) => Finding::of(
            CheckState::Failed,
            check,
            "SES does not know this identity in this region: its mails are refused",
            "create the identity in SES, in the stack's region, or verify its domain",
        ),
        Err(why) => unread(check, why),
    }
}
