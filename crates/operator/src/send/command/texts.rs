//! The draft of text messages, and whether a file is sent as mails or as text messages.

use crate::send::{Templates, TextDraft};
use tidegate_core::channel::Channel;

use super::args::{SendArgs, TextArgs};
use crate::shell::{CommandError, CommandResult};

impl TextArgs {
    pub(super) fn draft(&self, templates: Templates) -> TextDraft {
        let (message_type, prices) = (self.message_type.clone(), self.price_per_part.clone());
        TextDraft { templates, message_type, prices }
    }

    fn given(&self) -> Option<&'static str> {
        let price = (!self.price_per_part.is_empty()).then_some("--price-per-part");
        self.message_type.as_ref().map(|_| "--type").or(price)
    }
}

/// The option that only a mail has, if one is given.
fn option_of_mail(args: &SendArgs) -> Option<&'static str> {
    let mail = &args.mail;
    let is_address = mail.from.as_ref().is_some_and(|from| from.contains('@'));
    let given = [
        ("--template", mail.template.is_some()),
        ("--subject", mail.subject.is_some()),
        ("--template-name", mail.template_name.is_some()),
        ("--reply-to", !mail.reply_to.is_empty()),
        ("--list-unsubscribe", mail.list_unsubscribe.is_some()),
        ("an e-mail address in --from", is_address),
    ];
    given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
}

/// The channel that the options are for: text messages, if there is a text and nothing that only a mail has.
///
/// # Errors
/// Options of both.
pub(super) fn channel(args: &SendArgs) -> CommandResult<Channel> {
    match (option_of_mail(args), args.texts.given()) {
        (Some(of_mail), Some(of_text)) => Err(CommandError::Input(format!(
            "{of_mail} belongs to e-mail and {of_text} to text messages: allowed is one of them"
        ))),
        (None, Some(_)) => Ok(Channel::Sms),
        (None, None) if args.mail.text.is_some() => Ok(Channel::Sms),
        (_, None) => Ok(Channel::Email),
    }
}

/// Refuses mails for a stack of text messages, text messages for a stack of e-mail, and what text messages cannot have.
pub(super) fn check(args: &SendArgs, stack: &str, sends: Channel) -> CommandResult<()> {
    let said = match (sends, channel(args)?) {
        (Channel::Sms, Channel::Email) => {
            let of_mail = option_of_mail(args).unwrap_or("a mail");
            format!(
                "the stack {stack} sends text messages, and {of_mail} belongs to e-mail; allowed are --text FILE, --from \
                 with a number, sender id or pool, and --type"
            )
        }
        (Channel::Email, Channel::Sms) => {
            let why = args.texts.given().unwrap_or("--text without a subject");
            format!(
                "the stack {stack} sends e-mail, and {why} makes these text messages; a mail has --from ADDRESS, and \
                 --subject TEXT or a <title> in its --template"
            )
        }
        (Channel::Sms, Channel::Sms) if args.input.exclude_suppressed => {
            "--exclude-suppressed is for e-mail: AWS refuses texts to numbers that opted out, and takes nothing for \
             them"
                .to_owned()
        }
        _ => return Ok(()),
    };
    Err(CommandError::Input(said))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        send: SendArgs,
    }

    fn args(line: &str) -> SendArgs {
        Program::try_parse_from(["tidegate"].into_iter().chain(line.split(' '))).unwrap().send
    }

    #[test]
    fn a_text_and_nothing_of_a_mail_is_a_text_message() {
        for (line, expected) in [
            ("a.csv --text a.txt", Channel::Sms),
            ("a.csv --text a.txt --from NEWS --type promotional", Channel::Sms),
            ("a.csv --text a.txt --from news@example.org", Channel::Email),
            ("a.csv --text a.txt --subject Hello", Channel::Email),
            ("a.csv --text a.txt --template a.html", Channel::Email),
            ("a.csv", Channel::Email),
        ] {
            assert_eq!(channel(&args(line)).unwrap(), expected, "{line}");
        }
        let both = channel(&args("a.csv --text a.txt --subject Hello --type promotional"));
        let said = both.unwrap_err().to_string();
        assert!(said.starts_with("--subject belongs to e-mail and --type to text"), "{said}");
    }

    #[test]
    fn messages_of_the_other_channel_are_refused_with_what_makes_them_so() {
        let said = |line: &str, sends| check(&args(line), "news", sends).unwrap_err().to_string();
        let mail = said("a.csv --template a.html --from a@example.org", Channel::Sms);
        assert!(
            mail.starts_with("the stack news sends text messages, and --template belongs"),
            "{mail}"
        );
        let text = said("a.csv --text a.txt", Channel::Email);
        assert!(
            text.starts_with("the stack news sends e-mail, and --text without a subject"),
            "{text}"
        );
        let listed = said("a.csv --text a.txt --exclude-suppressed", Channel::Sms);
        assert!(listed.starts_with("--exclude-suppressed is for e-mail"), "{listed}");
        assert!(check(&args("a.csv --text a.txt"), "news", Channel::Sms).is_ok());
        assert!(check(&args("a.csv --subject a"), "news", Channel::Email).is_ok());
    }
}
