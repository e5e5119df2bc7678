//! IAM's policy simulator, in the protocol [AWS Query](https://smithy.io/2.0/aws/protocols/aws-query-protocol.html).

use std::time::Duration;

use aws_config::{Region, SdkConfig};
use aws_smithy_query::QueryWriter;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_xml::decode::{Document, XmlDecodeError, try_data};

use crate::call::{CallError, Manner, Place, Request, Service, given_endpoint};

const OPERATION: &str = "SimulatePrincipalPolicy";
/// The variable of an endpoint of its own, as the SDK calls it.
const ENDPOINT: &str = "AWS_ENDPOINT_URL_IAM";
/// The time limits of one attempt and of a call with its retries: IAM throttles the simulator at a few calls a second.
const ATTEMPT: Duration = Duration::from_secs(10);
const ALL: Duration = Duration::from_secs(30);

/// Asks IAM what the policies of a role allow.
#[derive(Clone, Debug)]
pub struct PolicySimulator(Service);

impl PolicySimulator {
    /// IAM of the partition of `config`'s region, or at the endpoint that `AWS_ENDPOINT_URL_IAM` or `AWS_ENDPOINT_URL`
    /// names.
    pub fn new(config: &SdkConfig) -> Self {
        let mut place = place(config.region(), config.use_fips() == Some(true));
        if let Some(url) = given_endpoint(config, std::env::var(ENDPOINT).ok()) {
            place.url = url;
        }
        Self(Service::new(config, place))
    }

    /// Returns those of `actions` on the ARN `resource` that the policies of `role`, an ARN, do not allow. `context` are
    /// names of condition keys and their values, such as `ses:FromAddress`.
    ///
    /// # Errors
    /// Also for an answer that does not decide each action.
    pub async fn denied(
        &self,
        role: &str,
        actions: &[&str],
        resource: &str,
        context: &[(&str, &str)],
    ) -> Result<Vec<String>, CallError> {
        let body = question(role, actions, resource, context);
        let content = "application/x-www-form-urlencoded".to_owned();
        let headers = vec![("content-type", content)];
        let request = Request { operation: OPERATION, headers, body: body.into() };
        let decided = self.0.call(request, Manner::Retried(ATTEMPT, ALL), read).await?;
        if decided.len() != actions.len() {
            let (decided, asked) = (decided.len(), actions.len());
            let error = format!("an answer that decides {decided} of {asked} actions");
            return Err(CallError::construction_failure(error));
        }
        let denied = decided.into_iter().filter(|(_, decision)| decision != "allowed");
        Ok(denied.map(|(action, _)| action).collect())
    }
}

/// IAM is one per partition, and signs for one region
/// (<https://docs.aws.amazon.com/general/latest/gr/iam-service.html>). Partitions without SES are not listed.
fn place(region: Option<&Region>, fips: bool) -> Place {
    let name = region.map_or("", AsRef::as_ref);
    let (host, region) = match name {
        gov if gov.starts_with("us-gov-") => ("iam.us-gov.amazonaws.com", "us-gov-west-1"),
        eu if eu.starts_with("eusc-") => ("iam.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
        _ if fips => ("iam-fips.amazonaws.com", "us-east-1"),
        _ => ("iam.amazonaws.com", "us-east-1"),
    };
    let region = Some(Region::from_static(region));
    Place { service: "iam", url: format!("https://{host}"), region }
}

fn question(role: &str, actions: &[&str], resource: &str, context: &[(&str, &str)]) -> String {
    let mut body = String::new();
    let mut writer = QueryWriter::new(&mut body, OPERATION, "2010-05-08");
    writer.prefix("PolicySourceArn").string(role);
    let mut list = writer.prefix("ActionNames").start_list(false, None);
    for action in actions {
        list.entry().string(action);
    }
    list.finish();
    let mut list = writer.prefix("ResourceArns").start_list(false, None);
    list.entry().string(resource);
    list.finish();
    let mut list = writer.prefix("ContextEntries").start_list(false, None);
    for (key, value) in context {
        let mut entry = list.entry();
        entry.prefix("ContextKeyName").string(key);
        let mut values = entry.prefix("ContextKeyValues").start_list(false, None);
        values.entry().string(value);
        values.finish();
        entry.prefix("ContextKeyType").string("string");
    }
    list.finish();
    writer.finish();
    body
}

/// Reads each action with its decision, or the error.
fn read(answer: &HttpResponse) -> Result<Vec<(String, String)>, OrchestratorError<ErrorMetadata>> {
    let body = answer.body().bytes().unwrap_or_default();
    if answer.status().is_success() {
        return pairs(body, "EvalActionName", "EvalDecision").map_err(OrchestratorError::other);
    }
    let said = pairs(body, "Code", "Message").unwrap_or_default().into_iter().next();
    let mut error = ErrorMetadata::builder();
    if let Some((code, message)) = said {
        error = error.message(message).code(code);
    }
    Err(OrchestratorError::operation(error.build()))
}

/// The texts of the elements `first` and `second`, wherever they stand and in whichever order: IAM's documentation has
/// decisions before their actions.
fn pairs(body: &[u8], first: &str, second: &str) -> Result<Vec<(String, String)>, XmlDecodeError> {
    let mut document = Document::try_from(body)?;
    let (mut found, mut one, mut other) = (Vec::new(), None, None);
    while let Some(element) = document.next_start_element() {
        let text = match element.local() {
            name if name == first => &mut one,
            name if name == second => &mut other,
            _ => continue,
        };
        *text = Some(try_data(&mut document.scoped_to(element))?.into_owned());
        if one.is_some() {
            found.extend(other.take().and_then(|other| Some((one.take()?, other))));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;

    use super::*;
    use crate::fake::{Fake, FakeAnswer};

    const ROLE: &str = "arn:aws:iam::123456789012:role/poller";
    const QUEUE: &str = "arn:aws:sqs:eu-west-1:123456789012:big";
    const ACTIONS: [&str; 2] = ["sqs:SendMessage", "sqs:DeleteMessage"];

    /// An answer in the form that IAM documents: decisions before actions, and other members that end alike.
    fn answer(decisions: &[(&str, &str)]) -> String {
        let member = |(action, decision): &(&str, &str)| {
            format!(
                "<member><MatchedStatements><member><SourcePolicyId>sends</SourcePolicyId></member></MatchedStatements>\
                 <MissingContextValues/><EvalResourceName>{QUEUE}</EvalResourceName>\
                 <EvalDecision>{decision}</EvalDecision><EvalActionName>{action}</EvalActionName>\
                 <ResourceSpecificResults><member><EvalResourceDecision>allowed</EvalResourceDecision></member>\
                 </ResourceSpecificResults></member>"
            )
        };
        let members: String = decisions.iter().map(member).collect();
        format!(
            "<SimulatePrincipalPolicyResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\">\
             <SimulatePrincipalPolicyResult><IsTruncated>false</IsTruncated>\
             <EvaluationResults>{members}</EvaluationResults></SimulatePrincipalPolicyResult>\
             </SimulatePrincipalPolicyResponse>"
        )
    }

    async fn ask(service: &Fake) -> Result<Vec<String>, CallError> {
        let simulator = PolicySimulator::new(&service.config());
        simulator.denied(ROLE, &ACTIONS, QUEUE, &[("ses:FromAddress", "news@example.com")]).await
    }

    #[tokio::test]
    async fn iam_is_asked_for_all_actions_at_once_and_tells_those_that_it_does_not_allow() {
        let service = Fake::once(
            200,
            &answer(&[("sqs:SendMessage", "allowed"), ("sqs:DeleteMessage", "implicitDeny")]),
        );
        assert_eq!(ask(&service).await.unwrap(), ["sqs:DeleteMessage"]);
        let seen = &service.seen()[0];
        assert_eq!(
            seen.text,
            "Action=SimulatePrincipalPolicy&Version=2010-05-08\
             &PolicySourceArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fpoller\
             &ActionNames.member.1=sqs%3ASendMessage&ActionNames.member.2=sqs%3ADeleteMessage\
             &ResourceArns.member.1=arn%3Aaws%3Asqs%3Aeu-west-1%3A123456789012%3Abig\
             &ContextEntries.member.1.ContextKeyName=ses%3AFromAddress\
             &ContextEntries.member.1.ContextKeyValues.member.1=news%40example.com\
             &ContextEntries.member.1.ContextKeyType=string"
        );
        assert_eq!(seen.path, "https://iam.amazonaws.com/");
        assert_eq!(seen.header("content-type"), Some("application/x-www-form-urlencoded"));
        let signature = seen.header("authorization").unwrap();
        assert!(signature.contains("/us-east-1/iam/aws4_request"), "{signature}");
    }

    #[tokio::test]
    async fn an_answer_that_leaves_an_action_undecided_is_an_error() {
        let service = Fake::once(200, &answer(&[("sqs:SendMessage", "allowed")]));
        let error = ask(&service).await.unwrap_err().into_source().unwrap();
        assert_eq!(error.to_string(), "an answer that decides 1 of 2 actions");
        let service = Fake::once(200, "<html>");
        assert!(ask(&service).await.is_err());
    }

    #[tokio::test]
    async fn a_refusal_keeps_the_code_and_the_text_of_iam() {
        let refusal = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
                       <Message>no &lt;policy&gt; allows it</Message></Error></ErrorResponse>";
        let error = ask(&Fake::once(403, refusal)).await.unwrap_err();
        assert_eq!(error.code(), Some("AccessDenied"));
        assert_eq!(error.message(), Some("no <policy> allows it"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_question_is_asked_again() {
        let throttled = "<ErrorResponse><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>";
        let allowed = answer(&[("sqs:SendMessage", "allowed"), ("sqs:DeleteMessage", "allowed")]);
        let answers = [(400, throttled.to_owned()), (200, allowed)];
        let service = Fake::new(answers.map(|(status, body)| FakeAnswer::Http(status, &[], body)));
        assert!(ask(&service).await.unwrap().is_empty());
        assert_eq!(service.seen().len(), 2);
    }

    #[test]
    fn each_partition_has_its_iam() {
        let url = |region, fips| {
            let place = place(Some(&Region::from_static(region)), fips);
            (place.url, place.region.unwrap().to_string())
        };
        for (region, fips, host, signed) in [
            ("eu-west-1", false, "iam.amazonaws.com", "us-east-1"),
            ("us-east-2", true, "iam-fips.amazonaws.com", "us-east-1"),
            ("us-gov-east-1", false, "iam.us-gov.amazonaws.com", "us-gov-west-1"),
            ("us-gov-west-1", true, "iam.us-gov.amazonaws.com", "us-gov-west-1"),
            ("eusc-de-east-1", false, "iam.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
        ] {
            assert_eq!(url(region, fips), (format!("https://{host}"), signed.to_owned()));
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_is_given_replaces_that_of_iam() {
        let service = Fake::once(200, &answer(&[]));
        let config = service.config().into_builder().endpoint_url("http://127.0.0.1:4566").build();
        assert!(
            PolicySimulator::new(&config).denied(ROLE, &[], QUEUE, &[]).await.unwrap().is_empty()
        );
        assert_eq!(service.seen()[0].path, "http://127.0.0.1:4566/");
    }
}
