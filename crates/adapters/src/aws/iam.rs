//! IAM's policy simulator, in the protocol [AWS Query](https://smithy.io/2.0/aws/protocols/aws-query-protocol.html).

use std::time::Duration;

use aws_config::{Region, SdkConfig};
use aws_smithy_query::QueryWriter;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_xml::decode::{Document, XmlDecodeError, try_data};

use crate::aws::call::{
    CallError, Manner, ReadAnswer, ServiceCall, ServiceClient, ServiceEndpoint, configured_endpoint,
};

const OPERATION: &str = "SimulatePrincipalPolicy";
/// The time limits of one attempt and of a call with its retries, for which an operator waits.
const ATTEMPT: Duration = Duration::from_secs(10);
const ALL: Duration = Duration::from_secs(30);

/// Asks IAM what the policies of a role allow.
#[derive(Clone, Debug)]
pub struct PolicySimulator(ServiceClient);

impl PolicySimulator {
    /// IAM of the partition of `config`'s region, or at the endpoint that is configured for IAM or for all services.
    pub fn new(config: &SdkConfig) -> Self {
        let mut endpoint = endpoint(
            config.region(),
            config.use_fips() == Some(true),
            config.use_dual_stack() == Some(true),
        );
        if let Some(url) = configured_endpoint(config, "IAM") {
            endpoint.url = url;
        }
        Self(ServiceClient::new(config, endpoint))
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
        let request = ServiceCall { operation: OPERATION, headers, body: body.into() };
        let (asked, on) = (actions.len(), resource.to_owned());
        let read = move |answer: &HttpResponse| read(answer, asked, &on);
        let decided = self.0.call(request, Manner::Retried(ATTEMPT, ALL), read).await?;
        let denied = decided.into_iter().filter(|(_, decision)| decision != "allowed");
        Ok(denied.map(|(action, _)| action).collect())
    }
}

/// IAM is one per partition, and is signed for in one region
/// (<https://docs.aws.amazon.com/general/latest/gr/iam-service.html>). Besides the commercial
/// partition there are that of `us-gov` regions and the European Sovereign Cloud's; others have no line.
fn endpoint(region: Option<&Region>, fips: bool, dual_stack: bool) -> ServiceEndpoint {
    let name = region.map_or("", AsRef::as_ref);
    let (host, region) = if name.starts_with("us-gov-") {
        let host = if dual_stack { "iam.us-gov.api.aws" } else { "iam.us-gov.amazonaws.com" };
        (host, "us-gov-west-1")
    } else if name.starts_with("eusc-") {
        let host = if fips { "iam-fips.amazonaws.eu" } else { "iam.eusc-de-east-1.amazonaws.eu" };
        (host, "eusc-de-east-1")
    } else {
        let host = match (fips, dual_stack) {
            (false, false) => "iam.amazonaws.com",
            (true, false) => "iam-fips.amazonaws.com",
            (false, true) => "iam.global.api.aws",
            (true, true) => "iam-fips.global.api.aws",
        };
        (host, "us-east-1")
    };
    let region = Some(Region::from_static(region));
    ServiceEndpoint { service: "iam", url: format!("https://{host}"), region }
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
    // The SDK's client leaves an empty list out.
    if context.is_empty() {
        writer.finish();
        return body;
    }
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

/// Reads each of the `asked` actions with its decision, or the error.
fn read(answer: &HttpResponse, asked: usize, resource: &str) -> ReadAnswer<Vec<(String, String)>> {
    let body = answer.body().bytes().unwrap_or_default();
    let texts = |name| texts(body, name);
    if answer.status().is_success() {
        let actions = texts("EvalActionName").map_err(OrchestratorError::other)?;
        let decisions = texts("EvalDecision").map_err(OrchestratorError::other)?;
        let decided = actions.len().min(decisions.len());
        if decided != asked || actions.len() != decisions.len() {
            let error =
                format!("an answer that decides {decided} of {asked} actions on {resource}");
            return Err(OrchestratorError::other(error));
        }
        return Ok(actions.into_iter().zip(decisions).collect());
    }
    let first = |name| texts(name).ok().and_then(|found| found.into_iter().next());
    let status = || format!("HTTP {}", answer.status().as_u16());
    let mut error = ErrorMetadata::builder().message(first("Message").unwrap_or_else(status));
    if let Some(code) = first("Code") {
        error = error.code(code);
    }
    Err(OrchestratorError::operation(error.build()))
}

/// The texts of all elements `name`, wherever they stand.
fn texts(body: &[u8], name: &str) -> Result<Vec<String>, XmlDecodeError> {
    let mut document = Document::try_from(body)?;
    let mut found = Vec::new();
    while let Some(element) = document.next_start_element() {
        if element.matches(name) {
            found.push(try_data(&mut document.scoped_to(element))?.into_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;
    use aws_smithy_types::retry::RetryConfig;
    use aws_types::origin::Origin;
    use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

    use super::*;
    use crate::aws::fake::{Fake, FakeAnswer};

    const ROLE: &str = "arn:aws:iam::123456789012:role/poller";
    const QUEUE: &str = "arn:aws:sqs:eu-west-1:123456789012:big";
    const ACTIONS: [&str; 2] = ["sqs:SendMessage", "sqs:DeleteMessage"];

    /// An answer as in IAM's documentation: the decision before the action, and members with other names.
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
        assert_eq!(seen.header("user-agent"), Some("tidegate/0.1.0"));
        let signature = seen.header("authorization").unwrap();
        assert!(signature.contains("/us-east-1/iam/aws4_request"), "{signature}");
    }

    #[tokio::test]
    async fn an_answer_that_leaves_an_action_undecided_or_is_none_is_an_error() {
        let half = answer(&[("sqs:SendMessage", "allowed")]);
        let no_text = half.replace("allowed<", "<x/><");
        for (body, said) in [
            (
                half.as_str(),
                "an answer that decides 1 of 2 actions on arn:aws:sqs:eu-west-1:123456789012:big",
            ),
            ("<html>", "an answer that decides 0 of 2 actions"),
            (no_text.as_str(), "looking for a data element"),
        ] {
            let error = ask(&Fake::once(200, body)).await.unwrap_err();
            assert!(matches!(error, CallError::ResponseError(_)), "{error:?}");
            let chain = format!("{:?}", error.into_source().unwrap());
            assert!(chain.contains(said), "{chain}");
        }
    }

    #[tokio::test]
    async fn a_refusal_keeps_the_code_and_the_text_of_iam() {
        let refusal = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
                       <Message>no &lt;policy&gt; allows it</Message></Error></ErrorResponse>";
        let error = ask(&Fake::once(403, refusal)).await.unwrap_err();
        assert_eq!(error.code(), Some("AccessDenied"));
        assert_eq!(error.message(), Some("no <policy> allows it"));
    }

    #[tokio::test]
    async fn a_refusal_that_is_not_of_iam_tells_its_status() {
        let error = ask(&Fake::once(407, "<html>proxy</html>")).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (None, Some("HTTP 407")));
    }

    #[tokio::test]
    async fn without_a_context_none_is_sent() {
        let service = Fake::once(200, &answer(&[("sqs:SendMessage", "allowed")]));
        let simulator = PolicySimulator::new(&service.config());
        assert!(simulator.denied(ROLE, &ACTIONS[..1], QUEUE, &[]).await.unwrap().is_empty());
        let end = "&ResourceArns.member.1=arn%3Aaws%3Asqs%3Aeu-west-1%3A123456789012%3Abig";
        assert!(service.seen()[0].text.ends_with(end));
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_question_is_asked_again_as_often_as_is_configured() {
        let throttled = "<ErrorResponse><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>";
        let allowed = answer(&[("sqs:SendMessage", "allowed"), ("sqs:DeleteMessage", "allowed")]);
        for (retries, asked) in [
            (RetryConfig::standard(), 2),
            (RetryConfig::adaptive(), 2),
            (RetryConfig::standard().with_max_attempts(1), 1),
        ] {
            let answers = [(400, throttled.to_owned()), (200, allowed.clone())];
            let service =
                Fake::new(answers.map(|(status, body)| FakeAnswer::Http(status, &[], body)));
            let config = service.config().into_builder().retry_config(retries).build();
            let denied = PolicySimulator::new(&config).denied(ROLE, &ACTIONS, QUEUE, &[]).await;
            assert_eq!(denied.is_ok(), asked == 2);
            assert_eq!(service.seen().len(), asked);
        }
    }

    #[test]
    fn each_partition_has_its_iam() {
        for (region, fips, dual_stack, host, signed) in [
            ("eu-west-1", false, false, "iam.amazonaws.com", "us-east-1"),
            ("us-east-2", true, false, "iam-fips.amazonaws.com", "us-east-1"),
            ("us-east-2", false, true, "iam.global.api.aws", "us-east-1"),
            ("us-east-2", true, true, "iam-fips.global.api.aws", "us-east-1"),
            ("us-gov-east-1", false, false, "iam.us-gov.amazonaws.com", "us-gov-west-1"),
            ("us-gov-west-1", true, false, "iam.us-gov.amazonaws.com", "us-gov-west-1"),
            ("us-gov-west-1", true, true, "iam.us-gov.api.aws", "us-gov-west-1"),
            ("eusc-de-east-1", false, false, "iam.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
            ("eusc-de-east-1", true, false, "iam-fips.amazonaws.eu", "eusc-de-east-1"),
        ] {
            let endpoint = endpoint(Some(&Region::from_static(region)), fips, dual_stack);
            assert_eq!(endpoint.url, format!("https://{host}"));
            assert_eq!(endpoint.region.unwrap().as_ref(), signed, "{region}");
        }
    }

    /// The settings of an environment or a profile, as the SDK's loader leaves them in a configuration.
    #[derive(Debug)]
    struct Settings;

    impl LoadServiceConfig for Settings {
        fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
            let asked = (key.service_id(), key.env(), key.profile());
            assert_eq!(asked, ("IAM", "AWS_ENDPOINT_URL", "endpoint_url"));
            Some("http://iam.example".to_owned())
        }
    }

    #[test]
    fn the_endpoint_is_that_of_the_code_before_that_of_iam_before_that_of_all_services() {
        let url = |general: Option<&str>, origin, own: bool| {
            let mut config = Fake::new([]).config().into_builder();
            config.set_endpoint_url(general.map(str::to_owned));
            config.insert_origin("endpoint_url", origin);
            config.set_service_config(own.then_some(Settings));
            PolicySimulator::new(&config.use_fips(true).build()).0.endpoint.url
        };
        let general = Some("http://all.example");
        assert_eq!(url(None, Origin::unknown(), false), "https://iam-fips.amazonaws.com");
        assert_eq!(
            url(general, Origin::shared_environment_variable(), false),
            "http://all.example"
        );
        assert_eq!(url(general, Origin::shared_environment_variable(), true), "http://iam.example");
        assert_eq!(url(general, Origin::shared_config(), true), "http://all.example");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_clock_is_put_right_by_the_time_of_the_refusal() {
        let refusal =
            "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code></Error></ErrorResponse>";
        let decided = answer(&[("sqs:SendMessage", "allowed"), ("sqs:DeleteMessage", "allowed")]);
        let service = Fake::new([
            FakeAnswer::Http(403, &[("date", "Wed, 01 Jan 2025 00:00:00 GMT")], refusal.to_owned()),
            FakeAnswer::Http(200, &[], decided),
        ]);
        assert!(ask(&service).await.unwrap().is_empty());
        let seen = service.seen();
        let signed = seen.iter().map(|request| request.header("x-amz-date").unwrap());
        let corrected: Vec<bool> = signed.map(|at| at.starts_with("20250101T0000")).collect();
        assert_eq!(corrected, [false, true]);
    }
}
