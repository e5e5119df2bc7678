//! Has SES render a template for a look, by `TestRenderEmailTemplate`.

use aws_sdk_sesv2::error::ProvideErrorMetadata as _;
use tidegate_delivery::ports::PortError;

use super::SesAccount;
use crate::aws::error::port_error;

impl SesAccount {
    /// Why SES cannot render its template `name` with `data`, a JSON object, in SES's words; `None` if it can.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer, or refuses for another reason.
    pub async fn template_fault(
        &self,
        name: &str,
        data: &str,
    ) -> Result<Option<String>, PortError> {
        let call = self.client.test_render_email_template().template_name(name);
        let Err(error) = call.template_data(data).send().await else { return Ok(None) };
        let of_template = ["BadRequestException", "NotFoundException"].map(Some);
        match error.message() {
            Some(said) if of_template.contains(&error.code()) => Ok(Some(said.to_owned())),
            _ => Err(port_error("TestRenderEmailTemplate", name, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::aws::ses::SesAccount;
    use crate::aws::tests::fake::{Fake, FakeAnswer};

    #[tokio::test]
    async fn a_template_that_cannot_be_rendered_says_which_attribute_is_missing() {
        let said = "Attribute 'name' is not present in the rendering data.";
        let refused = |status, code, said: &str| {
            let body = format!(r#"{{"message":"{said}"}}"#);
            let ses = Fake::new([FakeAnswer::Http(status, code, body)]);
            SesAccount::new(&ses.ses())
        };
        let bad = refused(400, &[("x-amzn-errortype", "BadRequestException")], said);
        assert_eq!(bad.template_fault("welcome", "{}").await.unwrap().as_deref(), Some(said));
        let none = refused(404, &[("x-amzn-errortype", "NotFoundException")], "no such template");
        assert!(none.template_fault("welcome", "{}").await.unwrap().is_some());
        let denied = refused(403, &[("x-amzn-errortype", "AccessDeniedException")], "no");
        assert!(denied.template_fault("welcome", "{}").await.is_err());
        let ses = Fake::once(200, r#"{"RenderedTemplate":"Subject: Hello"}"#);
        let fine = SesAccount::new(&ses.ses()).template_fault("welcome", r#"{"name":"Ada"}"#).await;
        assert_eq!(fine.unwrap(), None);
        let seen = ses.seen();
        assert!(seen[0].path.ends_with("/v2/email/templates/welcome/render"));
        assert_eq!(seen[0].body["TemplateData"], r#"{"name":"Ada"}"#);
    }
}
