//! The same input once more.

use tidegate_operator::page::Page;
use tidegate_operator::send::{DryRun, Estimate, check_resend};

use super::world::{FILE, KEPT, World, checked, draft, recipients};

const OWN_IDS: &str = "id,to,first_name,token\n7,a@example.com,A,t\n8,b@example.com,B,t\n";

#[test]
fn mails_that_the_deduplication_would_delete_are_not_sent_once_more() {
    let own = checked(&draft(), OWN_IDS).unwrap();
    let made = checked(&draft(), &recipients(2)).unwrap();
    assert_eq!((own.given_ids, made.given_ids), (2, 0));
    assert!(check_resend(&made, KEPT).is_ok());
    assert!(check_resend(&own, None).is_ok());
    let error = check_resend(&own, KEPT).unwrap_err().to_string();
    let said = "--again: 2 ids of the input's own, and deduplication deletes a mail whose id was \
                sent within 15 days; nothing was sent. ";
    assert!(error.starts_with(said), "{error}");
}

#[tokio::test(start_paused = true)]
async fn it_is_asked_whether_mails_may_be_deleted_whose_ids_are_the_input_s_own() {
    let world = World::new(1);
    let estimate = Estimate::default;
    let made = recipients(2);
    for (csv, kept, deletes) in
        [(OWN_IDS, KEPT, true), (OWN_IDS, None, false), (made.as_str(), KEPT, false)]
    {
        let checked = checked(&draft(), csv).unwrap();
        let header = world.header(&checked);
        let dry = DryRun::new(FILE, "j", &header, 0, &checked, kept, estimate());
        let said = "2 ids of the input's own: a mail whose id was sent within 15 days is deleted, \
                    not sent";
        assert_eq!(Page::of(&dry).plain().contains(said), deletes);
        let question = dry.question();
        assert_eq!(question.contains(said), deletes, "{question}");
        assert!(question.ends_with('?'), "{question}");
    }
}
