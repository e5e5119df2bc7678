//! Lists as other programs write them: encodings, line ends, values, broken rows; and that no error tells a recipient.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tidegate_core::channel::Content;
use tidegate_operator::dead::Corrections;
use tidegate_operator::page::Page;
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::send::{
    AddressList, CampaignDraft, CheckOptions, DraftContent, InputFormat, InputSummary,
    PreviewReport, RunEnd, TemplatePart, check,
};
use tidegate_operator::text_file::read_text;

use super::world::{CHECKING, CSV, FILE, Journal, World, draft, recipients, templates};

const SEMICOLON: InputFormat = InputFormat::Csv { delimiter: b';', multiline: false };
const TAB: InputFormat = InputFormat::Csv { delimiter: b'\t', multiline: false };
const MULTILINE: InputFormat = InputFormat::Csv { delimiter: b',', multiline: true };

/// A campaign of one text and a subject, which may be templates.
fn saying(text: &str) -> CampaignDraft {
    let parts =
        [(TemplatePart::Subject, "--subject", "News"), (TemplatePart::Text, "mail.txt", text)];
    CampaignDraft { content: DraftContent::Templates(templates(&parts)), ..draft() }
}

fn checked(
    draft: &CampaignDraft,
    input: &[u8],
    checking: CheckOptions,
) -> Result<(InputSummary, Vec<String>), Vec<String>> {
    let mut texts = Vec::new();
    let summary = check(draft, FILE, input, checking, |_, content| {
        let Content::Email(email) = content else { panic!("a mail") };
        let tidegate_core::email::Content::Simple { text: Some(text), .. } = &email.content else {
            panic!("a mail with a text")
        };
        texts.push(format!("{} {}", email.to[0].addr_spec(), text.decode()));
    });
    let shown = |fault: tidegate_operator::send::InputFault| {
        fault.shown(AddressVisibility::Masked).to_string()
    };
    summary
        .map(|summary| (summary, texts))
        .map_err(|faults| faults.into_iter().map(shown).collect())
}

fn texts(text: &str, format: InputFormat, input: &[u8]) -> Vec<String> {
    checked(&saying(text), input, CheckOptions { format, ..CHECKING }).unwrap().1
}

fn faults(text: &str, format: InputFormat, input: &[u8]) -> Vec<String> {
    checked(&saying(text), input, CheckOptions { format, ..CHECKING }).unwrap_err()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

#[test]
fn a_file_reads_alike_whatever_its_line_ends_its_mark_and_its_packing() {
    let plain = "to,name\nada@example.com,Ada\nbob@example.com,J\u{f6}rg\n";
    let expected = ["ada@example.com Ada.", "bob@example.com J\u{f6}rg."];
    let (head, tail) = plain.split_at(17);
    for bytes in [
        plain.into(),
        plain.replace('\n', "\r\n").into_bytes(),
        plain.replace('\n', "\r").into_bytes(),
        plain.replace('\n', "\r\r\n").into_bytes(),
        plain.trim_end().into(),
        format!("\u{feff}{plain}").into_bytes(),
        format!("\n\n{plain}").into_bytes(),
        gzip(plain.as_bytes()),
        gzip(format!("\u{feff}{}", plain.replace('\n', "\r")).as_bytes()),
        [gzip(head.as_bytes()), gzip(b""), gzip(tail.as_bytes())].concat(),
    ] {
        assert_eq!(texts("{{ name }}.", CSV, &bytes), expected);
    }
}

#[test]
fn every_reader_refuses_another_encoding_in_the_same_words() {
    let text = "to\nj\u{e4}n@example.com\n";
    let latin: Vec<u8> = text.chars().map(|c| u8::try_from(c).unwrap()).collect();
    let windows = [b"to\nO\x92Brien ".as_slice(), b"ada@example.com\n"].concat();
    let little = utf16("to\nada@example.com\n", u16::to_le_bytes);
    let big = utf16("to\nada@example.com\n", u16::to_be_bytes);
    let marked = [b"\xff\xfe".as_slice(), &little].concat();
    for (bytes, said) in [
        (latin, ":2: text: must be UTF-8: save the file so; byte E4 ('\u{e4}') looks like Latin-1"),
        (windows, ":2: text: must be UTF-8: save the file so; byte 92 looks like Windows-1252"),
        (big.clone(), ":1: text: must be UTF-8: save the file so; it looks like UTF-16"),
        ([b"\xfe\xff".as_slice(), &big].concat(), "it looks like UTF-16"),
        (little, "it looks like UTF-16"),
        (gzip(&marked), "it looks like UTF-16"),
        (marked, "it looks like UTF-16"),
        (
            b"to\nad\0a@example.com\n".to_vec(),
            ":2: text: must be UTF-8: save the file so; it has the character NUL",
        ),
        (
            b"PK\x03\x04\x14\x00\x08".to_vec(),
            "it looks like a workbook or an archive: save the sheet as CSV",
        ),
        (gzip(b"to\nada@example.com\n")[..20].to_vec(), ": file: must be readable: "),
    ] {
        let mut list = AddressList::default();
        let input = bytes.as_slice();
        for fault in [
            checked(&saying("x"), input, CHECKING).unwrap_err().concat(),
            faults("x", InputFormat::Json, input).concat(),
            list.read(FILE, input).unwrap_err().to_string(),
            Corrections::read(FILE, input).unwrap_err().to_string(),
            read_text(FILE, input).unwrap_err().to_string(),
        ] {
            // JSON ends at its first line, which is none.
            let is_of_json = fault.contains(":1: line: must be ");
            assert!(fault.contains(said) || is_of_json, "{fault}: {said}");
            assert!(!fault.contains("ada@"), "{fault}");
        }
    }
    assert_eq!(read_text(FILE, "\u{feff}<p>\r\n</p>\r".as_bytes()).unwrap(), "<p>\n</p>");
}

#[test]
fn blanks_around_values_are_no_part_of_them_and_may_stand_before_a_quote() {
    let csv = "to, name , city\nada@example.com , Ada\u{a0}, \"Bern, CH\" \n\
               bob@example.com,\"\u{3000} Bob \",\t\"B \"\"x\"\" \"\ncy@example.com,C\"y\"\"z,\"a\"b\n";
    let expected = [
        "ada@example.com Ada|Bern, CH",
        "bob@example.com Bob|B \"x\"",
        "cy@example.com C\"y\"\"z|ab",
    ];
    assert_eq!(texts("{{ name }}|{{ city }}", CSV, csv.as_bytes()), expected);
    for (format, separator) in [(SEMICOLON, ";"), (TAB, "\t")] {
        let csv = format!("to{separator}name\nada@example.com{separator} \"A{separator}B\"\n");
        let expected = format!("ada@example.com A{separator}B");
        assert_eq!(texts("{{ name }}", format, csv.as_bytes()), [expected]);
    }
}

#[test]
fn an_empty_value_is_missing_so_that_a_default_stands_there_and_it_is_counted() {
    let friend = "{{ name|default('friend') }}";
    let csv = "to,name,city\nada@example.com,Ada,Bern\nbob@example.com,,\ncy@example.com, \u{a0} ,Ulm\ndi@example.com,\"\",\n";
    let checked = checked(&saying(friend), csv.as_bytes(), CHECKING).unwrap();
    let names = [
        "ada@example.com Ada",
        "bob@example.com friend",
        "cy@example.com friend",
        "di@example.com friend",
    ];
    assert_eq!(checked.1, names);
    let page =
        PreviewReport { preview: None, dry_run: None, input: None, rest: Some(checked.0.rest) };
    assert_eq!(Page::of(&page).plain(), "city is empty in 2 rows\nname is empty in 3 rows\n");
    let json = "{\"to\": \"ada@example.com\", \"name\": null}\n{\"to\": \"bob@example.com\", \"name\": \" \"}\n\
                {\"to\": \"cy@example.com\"}\n";
    let names = ["ada@example.com friend", "bob@example.com friend", "cy@example.com friend"];
    assert_eq!(texts(friend, InputFormat::Json, json.as_bytes()), names);
    // Where the template says nothing, the template is at fault: once, not in each row.
    let said = "mail.txt:1: {{ name }}: is empty in this row: {{ name|default('friend') }} says what stands there then \
                (recipients.csv:3 and 2 more)";
    assert_eq!(faults("{{ name }}", CSV, csv.as_bytes()), [said]);
}

#[test]
fn values_of_json_are_as_they_are_written() {
    let values = [
        ("true", "true"),
        ("false", "false"),
        ("20.00", "20.00"),
        ("1e3", "1e3"),
        ("-0", "-0"),
        ("10000000000000001", "10000000000000001"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("0.10000000000000000001", "0.10000000000000000001"),
        ("\" text \"", "text"),
        ("[\"a\", null]", "[\"a\"]"),
        ("{\"b\": true, \"c\": null}", "{\"b\":true}"),
    ];
    for (json, expected) in values {
        let row = format!("{{\"to\": \"ada@example.com\", \"value\": {json}}}");
        let expected = format!("ada@example.com {expected}");
        assert_eq!(texts("{{ value }}", InputFormat::Json, row.as_bytes()), [expected.as_str()]);
    }
    let row = "{\"to\": \"ada@example.com\", \"is\": false, \"n\": 4, \"tags\": [\"a\", null, \"b\"], \"o\": {\"x\": 2.50}}";
    let text = "{% if is %}yes{% else %}no{% endif %} {{ n + 1 }} {{ tags|join('+') }} {{ o.x }} {{ o.y|default('-') }}";
    assert_eq!(texts(text, InputFormat::Json, row.as_bytes()), ["ada@example.com no 5 a+b 2.50 -"]);
}

#[test]
fn a_template_of_ses_s_gets_every_column_because_it_drops_mail_without_one() {
    let content = DraftContent::SesTemplate { name: "welcome".to_owned(), headers: templates(&[]) };
    let draft = CampaignDraft { content, ..draft() };
    let rows = "{\"to\": \"ada@example.com\", \"name\": null, \"total\": 20.00, \"yes\": true}";
    let checking = CheckOptions { format: InputFormat::Json, ..CHECKING };
    let mut bodies = Vec::new();
    check(&draft, FILE, rows.as_bytes(), checking, |message, _| bodies.push(message.body.clone()))
        .unwrap();
    let data = r#""data":{"name":"","to":"ada@example.com","total":"20.00","yes":true}"#;
    assert!(bodies[0].contains(data), "{}", bodies[0]);
}

#[test]
fn an_array_of_objects_is_read_as_lines_are_and_each_knows_its_line() {
    let array = "\n[\n  {\"to\": \"ada@example.com\",\n   \"name\": \"A, [b] \\\" {c}\"},\n  {\"to\": \"bob@example.com\", \"name\": \"Bob\"}\n]\n";
    let expected = ["ada@example.com A, [b] \" {c}", "bob@example.com Bob"];
    assert_eq!(texts("{{ name }}", InputFormat::Json, array.as_bytes()), expected);
    let one_line =
        "[{\"to\":\"ada@example.com\",\"name\":\"A\"},{\"to\":\"bob\",\"name\":\"B\"},7]";
    let said = faults("{{ name }}", InputFormat::Json, one_line.as_bytes());
    assert!(said[0].starts_with("recipients.csv:1: to: must be one address"), "{said:?}");
    assert!(said[1].starts_with("recipients.csv:1: line: must be one JSON object"), "{said:?}");
    let lines = array.replace("\"bob@example.com\"", "\"bob\"");
    assert!(
        faults("x", InputFormat::Json, lines.as_bytes())[0].starts_with("recipients.csv:5: to: ")
    );
    for broken in [
        "[{\"to\":\"ada@example.com\"}",
        "[{\"to\":\"ada@example.com\"}] x",
        "[{\"to\":\"ada@example.com\",}]",
    ] {
        let said = faults("x", InputFormat::Json, broken.as_bytes());
        assert!(
            said[0].starts_with(
                "recipients.csv:1: line: must be one array of JSON objects; character "
            ),
            "{said:?}"
        );
    }
    let said = faults("x", InputFormat::Json, b"[]");
    assert_eq!(said, ["recipients.csv:1: rows: must be at least one"]);
}

#[test]
fn what_a_spreadsheet_leaves_empty_is_skipped_and_counted() {
    let csv = "to,,name,,\nada@example.com,,Ada,,\n,,,,\n\" \",,,,\nbob@example.com,,Bob,,\ncy@example.com,,Cy\n";
    let (summary, texts) = checked(&saying("{{ name }}"), csv.as_bytes(), CHECKING).unwrap();
    assert_eq!(texts, ["ada@example.com Ada", "bob@example.com Bob", "cy@example.com Cy"]);
    assert_eq!((summary.rest.empty_rows, summary.rest.unnamed_columns), (2, 3));
    let page =
        PreviewReport { preview: None, dry_run: None, input: None, rest: Some(summary.rest) };
    let said = "2 rows of empty cells skipped\n3 columns without a name skipped\n";
    assert_eq!(Page::of(&page).plain(), said);
    for (row, said) in [
        (
            "ada@example.com,x,Ada,,",
            "row: must have values below the names of the first line only; field 2 has none",
        ),
        (
            "ada@example.com,,Ada,,,7",
            "row: must have values below the names of the first line only; field 6 has none",
        ),
        ("ada@example.com", "row: must have 5 fields, as the first line; it has 1"),
    ] {
        let csv = format!("to,,name,,\n{row}\n");
        assert_eq!(faults("x", CSV, csv.as_bytes()), [format!("recipients.csv:2: {said}")]);
    }
}

#[test]
fn rows_with_a_fault_are_left_out_and_written_so_that_they_can_be_sent_once_they_are_corrected() {
    let skipping = CheckOptions { skip_invalid: true, max_faults: 1, ..CHECKING };
    let csv = "to,name\nada@example.com,Ada\nbob@example,\"B, \"\"x\"\"\"\ncy@example.com\nada@example.com,A\n\
               di@example.com,\"Di\neve@example.com,Eve\n";
    let draft = saying("{{ name }}");
    let (summary, texts) = checked(&draft, csv.as_bytes(), skipping).unwrap();
    assert_eq!(texts, ["ada@example.com Ada", "eve@example.com Eve"]);
    assert_eq!((summary.rows, summary.rest.refused), (2, 4));
    let refused = summary.rest.refused_rows;
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!(lines[0], "refused_because,to,name");
    assert!(lines[1].starts_with("\"recipients.csv:3: to: must be one address"), "{refused}");
    assert!(lines[1].ends_with(",bob@example,\"B, \"\"x\"\"\""), "{refused}");
    assert!(
        lines[3].contains("with --allow-duplicates or --first-of-duplicates; line 2"),
        "{refused}"
    );
    // As they are they are refused again; corrected, they are sent.
    let again = checked(&draft, refused.as_bytes(), skipping).unwrap();
    assert_eq!(again.1, ["ada@example.com A"]);
    assert!(again.0.rest.refused_rows.starts_with("refused_because_,refused_because,to,name\n"));
    let corrected = refused
        .replace("bob@example,", "bob@example.org,")
        .replace("\"Di", "Di")
        .replace("cy@example.com", "cy@example.com,Cy");
    let (_, texts) = checked(&draft, corrected.as_bytes(), CHECKING).unwrap();
    assert_eq!(
        texts,
        ["bob@example.org B, \"x\"", "cy@example.com Cy", "ada@example.com A", "di@example.com Di"]
    );
    // Nothing that is sent is a fault of the whole file, and one is still refused.
    let all = checked(&draft, b"to,name\nbob,B\n", skipping).unwrap_err();
    assert_eq!(all, ["recipients.csv:1: rows: must be at least one without a fault"]);
    assert_eq!(checked(&draft, b"to,name\nada@example.com,\xff\n", skipping).unwrap_err().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_rows_that_are_left_out_are_not_sent_also_by_a_run_that_goes_on_later() {
    let mut world = World::new(11);
    world.checking = CheckOptions { skip_invalid: true, first_of_duplicates: true, ..CHECKING };
    let broken = ",,\nada3@example,Ada,t\nada9@example.com,\"Ada\nADA2@example.com,Ada,t\n";
    let csv = recipients(1_000).replace("ada3@example.com,", &format!("{broken}ada3@example.com,"));
    let mut journal = Journal::default();
    let stop = tokio::time::sleep(Duration::from_millis(100));
    let first = world.run(&csv, &mut journal, stop).await.unwrap();
    assert!(first.enqueued < 1_000, "{first:?}");
    let report = world.run(&csv, &mut journal, std::future::pending()).await.unwrap();
    assert_eq!((report.ended, first.enqueued + report.enqueued), (RunEnd::Done, 1_000));
    assert_eq!(world.run_state(), (1..=1_000).map(|row| (row, 1)).collect());
}

#[test]
fn refused_objects_are_objects_with_the_reason() {
    let json = "[{\"to\": \"ada@example.com\", \"name\": \"A\"}, {\"to\": \"bob\",\n \"name\": \"B\"}, {}, [1], {\"to\": 7]";
    let checking = CheckOptions { format: InputFormat::Json, skip_invalid: true, ..CHECKING };
    let lines = json
        .replace("[{", "{")
        .replace("}, ", "}\n")
        .replace(",\n ", ", ")
        .replace("[1], ", "[1]\n");
    let (summary, texts) = checked(&saying("{{ name }}"), lines.as_bytes(), checking).unwrap();
    assert_eq!((texts.len(), summary.rest.refused, summary.rest.empty_rows), (1, 3, 1));
    let refused: Vec<serde_json::Value> =
        summary.rest.refused_rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&refused[0]["to"], &refused[0]["name"]), (&"bob".into(), &"B".into()));
    assert_eq!((&refused[1]["row"], &refused[2]["row"]), (&"[1]".into(), &"{\"to\": 7]".into()));
    assert!(
        refused
            .iter()
            .all(|row| row["refused_because"].as_str().unwrap().starts_with("recipients.csv:"))
    );
}

#[test]
fn of_an_address_in_several_rows_the_first_may_get_the_only_mail() {
    let csv =
        "to,name\nada@example.com,A\nAda@Example.com,B\nbob@example.com,C\nada@example.com,D\n";
    let checking = CheckOptions { first_of_duplicates: true, ..CHECKING };
    let (summary, texts) = checked(&saying("{{ name }}"), csv.as_bytes(), checking).unwrap();
    assert_eq!(texts, ["ada@example.com A", "bob@example.com C"]);
    assert_eq!((summary.rows, summary.rest.duplicates), (2, 2));
}

#[test]
fn the_good_lines_of_a_list_of_addresses_count_and_the_bad_ones_are_named_without_them() {
    let text = "email,when\nada@example.com,2026\nbob@example,2026\n,,\ncarol@example.com,\"no, thanks\"\n\
                Dave <dave@example.com>,2026,\n\"Lovelace, Eve\" <eve@example.com>;2026\n\"fay@example.com,2026\n\
                [\"gus@example.com\", {\"to\": [\"hal@example.com\"]}]\n# a comment\nivy@example.com\u{200b}\n+12065550100\n";
    let mut list = AddressList::default();
    list.read("left.csv", text.as_bytes()).unwrap();
    let faults: Vec<_> = list.faults().iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "left.csv:3: address: must be one address like ada@example.com or Ada <ada@example.com>",
            "left.csv:11: address: must not hold the invisible character U+200B, which stands at the end",
        ]
    );
    let mut expected = AddressList::default();
    for name in ["ada", "carol", "dave", "eve", "fay", "gus", "hal"] {
        expected.add(&format!("{name}@example.com"));
    }
    expected.add("+12065550100");
    assert_eq!(list.keys(), expected.keys());
}

/// Texts that stand where they harm.
fn harm() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "\"",
        "'",
        ",",
        ";",
        "\t",
        "\r",
        "\n",
        "\r\n",
        "@",
        "@@",
        " ",
        "\u{a0}",
        "\u{200b}",
        "\u{202e}",
        "\u{feff}",
        "\0",
        "{",
        "}",
        "[",
        "]",
        ":",
        "\\",
        "\\u",
        "<",
        ">",
        "(",
        ".",
        "..",
        "%",
        "%40",
        "&#64;",
        "\u{e9}",
        "null",
        "+",
        "#",
        "=",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ])
    .prop_map(str::to_owned)
}

/// What marks each recipient of a list, so that it is found wherever it stands.
const SECRET: &str = "zqxjk";

fn lists() -> impl Strategy<Value = String> {
    let address = |n: u8| format!("{SECRET}{n}.lovelace@example.com");
    prop::sample::select(vec![
        format!("to,name\n{},Ada\n{},Bob\n", address(1), address(2)),
        format!("name;email\nAda;{}\n\"B\";\"{}\"\n", address(1), address(2)),
        format!("{},Ada\n{},Bob\n", address(1), address(2)),
        format!("to\tname\n{}\tAda\n{}\tBob\n", address(1), address(2)),
        format!("{}\n{}\n", address(1), address(2)),
        format!("email,when\nAda <{}>,2026\n", address(1)),
        format!(
            "{{\"to\":\"{}\",\"name\":\"Ada\"}}\n{{\"to\":[\"{}\"]}}\n",
            address(1),
            address(2)
        ),
        format!("[{{\"to\":\"{}\"}},{{\"email\":\"{}\"}}]\n", address(1), address(2)),
        format!("[\"{}\",\"{}\"]\n", address(1), address(2)),
        format!("id,to,name\n{},{},A\n{},{},B\n", address(1), address(2), address(1), address(3)),
    ])
}

/// What any reader of lists says about a file.
fn said(bytes: &[u8]) -> String {
    let mut said = String::new();
    for format in [CSV, SEMICOLON, TAB, MULTILINE, InputFormat::Json] {
        for to_column in [None, Some("name".to_owned())] {
            for skip_invalid in [false, true] {
                let draft = CampaignDraft { to_column: to_column.clone(), ..saying("{{ name }}") };
                let checking = CheckOptions { format, skip_invalid, ..CHECKING };
                match checked(&draft, bytes, checking) {
                    Err(faults) => said += &faults.join("\n"),
                    Ok((summary, _)) => {
                        let rest = Some(summary.rest);
                        let shown =
                            PreviewReport { preview: None, dry_run: None, input: None, rest };
                        said += &Page::of(&shown).plain();
                        said += &serde_json::to_string(&shown).unwrap();
                    }
                }
            }
        }
    }
    let shown = |fault: tidegate_operator::send::InputFault| {
        fault.shown(AddressVisibility::Masked).to_string()
    };
    let mut list = AddressList::default();
    said.extend(list.read(FILE, bytes).err().map(|fault| shown(*fault)));
    said.extend(list.faults().iter().map(ToString::to_string));
    said.extend(Corrections::read(FILE, bytes).err().map(|fault| shown(*fault)));
    said
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn no_error_about_a_list_tells_a_recipient(
        list in lists(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..8, harm()), 0..5),
    ) {
        let mut bytes = list.into_bytes();
        for (at, cut, harm) in changes {
            let at = at.index(bytes.len() + 1);
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, harm.into_bytes());
        }
        let said = said(&bytes);
        prop_assert!(!said.contains(SECRET), "{said}\n of {:?}", String::from_utf8_lossy(&bytes));
    }
}
