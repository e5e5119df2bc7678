use serde_json::json;

use super::*;

fn row(columns: &serde_json::Value) -> InputRow {
    let columns: BTreeMap<String, serde_json::Value> =
        serde_json::from_value(columns.clone()).unwrap();
    InputRow { file: "in.csv".into(), number: 1, line: 14, columns }
}

fn rendered(part: TemplatePart, text: &str, columns: &serde_json::Value) -> Result<String, String> {
    let templates = Templates::compile([(part, TemplateSource::new("mail.html", text))], &[]);
    let rendered = templates.map_err(|faults| faults[0].to_string())?;
    let row = row(columns);
    let rendered = rendered.render(part, &Columns::of(&row));
    rendered.map(Option::unwrap_or_default).map_err(|fault| fault.to_string())
}

#[test]
fn values_are_escaped_in_html_and_nowhere_else() {
    let columns = json!({"name": "<b> & \"Ada\""});
    let html = rendered(TemplatePart::Html, "<p>{{ name }}</p>", &columns).unwrap();
    assert_eq!(html, "<p>&lt;b&gt; &amp; &quot;Ada&quot;</p>");
    for part in [TemplatePart::Text, TemplatePart::Subject, TemplatePart::UnsubscribeUrl] {
        assert_eq!(rendered(part, "{{ name }}", &columns).unwrap(), "<b> & \"Ada\"");
    }
}

#[test]
fn a_missing_column_is_named_with_the_template_its_line_and_the_inputs_line() {
    for text in ["a\n<p>{{ first }}</p>", "a\n{% if first %}x{% endif %}"] {
        let fault = rendered(TemplatePart::Html, text, &json!({"to": "a@x.de", "name": "A"}));
        let said = "mail.html:2: {{ first }}: must be a column of the row: name, to (in.csv:14)";
        assert_eq!(fault.unwrap_err(), said, "{text}");
    }
    let nested = rendered(TemplatePart::Text, "{{ order.total }}", &json!({"order": {"id": 1}}));
    assert!(nested.unwrap_err().starts_with("mail.html:1: {{ order.total }}: must be a column"));
}

#[test]
fn a_column_may_be_left_out_where_the_template_says_what_then() {
    let text = "{{ first|default('friend') }}{% if x is defined %}!{% endif %}";
    assert_eq!(rendered(TemplatePart::Text, text, &json!({})).unwrap(), "friend");
}

#[test]
fn columns_whose_names_are_no_words_and_values_for_an_address_can_be_rendered() {
    let columns = json!({"first name": "Ada", "token": "a b&c"});
    let text = "{{ row['first name'] }} {{ token|urlencode }}";
    assert_eq!(rendered(TemplatePart::Text, text, &columns).unwrap(), "Ada a%20b%26c");
}

#[test]
fn what_is_no_template_is_refused_with_its_line() {
    let fault = rendered(TemplatePart::Text, "a\n{{ name", &json!({})).unwrap_err();
    assert!(fault.starts_with("mail.html:2: template: must be valid: "), "{fault}");
    let fault =
        rendered(TemplatePart::Text, "a\n{{ name + 1 }}", &json!({"name": "Ada"})).unwrap_err();
    assert!(fault.starts_with("mail.html:2: {{ name + 1 }}: must be what can be rendered"));
    assert!(!fault.contains("Ada"), "{fault}");
}

#[test]
fn values_in_html_keep_their_slashes_also_in_links_and_after_the_filters_for_escaping() {
    let columns = json!({"link": "https://x.example/r/7?a=1&b=2", "name": "D'Arcy"});
    let text = "<a href=\"{{ link }}\">{{ name }}</a> {{ link|e }} {{ link|escape }}";
    let link = "https://x.example/r/7?a=1&amp;b=2";
    let expected = format!("<a href=\"{link}\">D&#39;Arcy</a> {link} {link}");
    assert_eq!(rendered(TemplatePart::Html, text, &columns).unwrap(), expected);
}

#[test]
fn a_value_that_would_change_where_a_link_leads_is_refused_with_the_filter_that_mends_it() {
    let html = |link: &str| (TemplatePart::Html, format!("<p>\n<a {link}>x</a>"));
    for (part, text) in [
        html("href=\"https://x.example/out?t={{ token }}\""),
        html("class=\"{% if token == 'a' %}b{% endif %}\" HREF = 'https://x.example/{{ token }}'"),
        html("href=https://x.example/{{token}}"),
        html("href=\"{{ base }}/out?t={{- token -}}\""),
        html("href=\"mailto:leave@x.example?subject={{ token }}\""),
        html("style=\"background:url(https://x.example/{{ token }})\""),
        (TemplatePart::Text, "See\nhttps://x.example/out?t={{ token }}".to_owned()),
        (TemplatePart::UnsubscribeUrl, "\nhttps://x.example/out?t={{ token }}".to_owned()),
        (TemplatePart::UnsubscribeMailto, "\nmailto:a@x.example?subject={{ token }}".to_owned()),
    ] {
        for (value, odd) in
            [("a+b", '+'), ("a&b", '&'), ("a#b", '#'), ("b=", '='), ("5%", '%'), ("a b", ' ')]
        {
            let columns = json!({"token": value, "base": "https://x.example"});
            let fault = rendered(part, &text, &columns).unwrap_err();
            let said = format!(
                "mail.html:2: {{{{ token }}}}: must hold no {odd:?} inside a link, which would change \
                 where it leads: write {{{{ token|urlencode }}}}, or {{{{ token|safe }}}} if"
            );
            assert!(fault.starts_with(&said), "{text}: {fault}");
            let encoded = rendered(part, &text.replace("{ token", "{ token|urlencode"), &columns);
            assert_eq!(encoded.is_ok(), text.contains("{ token"), "{text}");
        }
        let columns = json!({"token": "a-1_b.c/d~e:f@g", "base": "https://x.example"});
        assert!(rendered(part, &text, &columns).unwrap().contains("a-1_b.c/d~e:f@g"), "{text}");
    }
}

#[test]
fn an_encoded_value_in_a_link_is_encoded_once_and_one_that_is_vouched_for_stays() {
    let columns = json!({"token": "ab/cd+ef==", "query": "a=1&b=%20"});
    let text = "<a href=\"https://x.example/o?t={{ token|urlencode }}&amp;{{ query|safe }}\">";
    let html = rendered(TemplatePart::Html, text, &columns).unwrap();
    assert_eq!(html, "<a href=\"https://x.example/o?t=ab/cd%2Bef%3D%3D&amp;a=1&b=%20\">");
}

#[test]
fn values_that_are_addresses_themselves_and_values_outside_of_links_stay_as_they_are() {
    let columns =
        json!({"link": "https://x.example/?a=b+c", "to": "ada+1@x.example", "n": "5 % & +"});
    for text in [
        "<a href=\"{{ link }}\">x</a>",
        "<a href='{% if link %}{{ link }}{% endif %}'>x</a>",
        "<a href=\"mailto:{{ to }}\">x</a>",
        "<a href=\"tel:{{ to }}\">x</a>",
        "<p title=\"a: {{ n }}\">{{ n }}</p>",
        "<a href=\"https://x.example/\">{{ n }}</a>",
        "{% raw %}<a href=\"https://x.example/{{ n }}\">{% endraw %}",
    ] {
        assert!(rendered(TemplatePart::Html, text, &columns).is_ok(), "{text}");
    }
    let text = "{{ n }}: {{ link }}";
    assert_eq!(
        rendered(TemplatePart::Text, text, &columns).unwrap(),
        "5 % & +: https://x.example/?a=b+c"
    );
}

#[test]
fn a_missing_column_in_a_link_is_named_as_anywhere() {
    let text = "<a href=\"https://x.example/?t={{ token }}\">";
    let fault = rendered(TemplatePart::Html, text, &json!({"to": "a"})).unwrap_err();
    assert_eq!(fault, "mail.html:1: {{ token }}: must be a column of the row: to (in.csv:14)");
}

fn subject(html: &str, columns: &serde_json::Value) -> String {
    let title = TemplateSource::new("mail.html", html).title().unwrap();
    rendered(TemplatePart::Subject, &title.text, columns).unwrap().trim().to_owned()
}

#[test]
fn a_subject_from_the_title_has_every_reference_decoded_once_and_no_value() {
    let columns = json!({"name": "&amp; {{ x }} &lt;"});
    for (title, expected) in [
        ("L&eacute;a&rsquo;s caf&eacute;&nbsp;&ndash; it&#x27;s", "Léa’s café\u{a0}– it's"),
        ("&#8217;&hellip;&Auml;&euro;&#X20AC;&eacute &copy 1", "’…Ä€€é © 1"),
        ("How to write &amp;lt; and &amp;amp;", "How to write &lt; and &amp;"),
        ("AT&T &nope; & so on", "AT&T &nope; & so on"),
        ("\n   News\r\n\t for\n {{ name|length }}  \n{{ 'a  b' }}", "News for 18 a  b"),
        ("&#150;&#0;", "–\u{fffd}"),
        ("{{ name }} &amp; {{ name }}", "&amp; {{ x }} &lt; & &amp; {{ x }} &lt;"),
        (
            "Write &#123;&#123; x &#125;&#125;, &#123;% if %} or &lbrace;#",
            "Write {{ x }}, {% if %} or {#",
        ),
    ] {
        assert_eq!(subject(&format!("<title>{title}</title>"), &columns), expected, "{title}");
    }
}

#[test]
fn the_title_is_that_of_the_document() {
    for before in [
        "<!-- <title>no</title> -->",
        "<!--[if mso]><title>no</title><![endif]-->",
        "{# <title>no</title> #}",
        "<svg viewBox='0 0 1 1'><title>no</title></svg>",
        "<style>/* <title>no</title> */</style>",
        "<script>'<title>no</title>'</script>",
        "<titles>no</titles>",
    ] {
        let html = format!("<html>{before}<TITLE lang=\"en\">yes</TITLE ><title>no</title>");
        assert_eq!(subject(&html, &json!({})), "yes", "{before}");
    }
    assert_eq!(TemplateSource::new("m", "<svg><title>no</title></svg>").title(), None);
}

#[test]
fn a_fault_in_a_title_has_the_line_on_which_that_begins() {
    let title =
        TemplateSource::new("mail.html", "<head>\n<title>News\n for {{ nme }}</title>").title();
    let fault = rendered(TemplatePart::Subject, &title.unwrap().text, &json!({"name": "Ada"}));
    assert!(fault.as_ref().unwrap_err().starts_with("mail.html:2: {{ nme }}: "), "{fault:?}");
}

#[test]
fn a_replaced_template_keeps_the_other_parts_and_a_subject_from_the_title_follows_it() {
    let html = |text: &str| TemplateSource::new("mail.html", text);
    let whole = |subject: TemplateSource| {
        let body = html("<title>Old</title>{{ name }}");
        let text = (TemplatePart::Text, TemplateSource::new("mail.txt", "Text"));
        let parts = [(TemplatePart::Subject, subject), (TemplatePart::Html, body), text];
        Templates::compile(parts, &[]).unwrap()
    };
    let row = row(&json!({"name": "Ada"}));
    let rendered = |templates: &Templates| {
        let of = |part| templates.render(part, &Columns::of(&row)).unwrap().unwrap();
        [TemplatePart::Subject, TemplatePart::Html, TemplatePart::Text].map(of)
    };
    let new = || vec![(TemplatePart::Html, html("<title>New</title>{{ name }}!"))];
    let title = whole(html("<title>Old</title>").title().unwrap()).replaced(new(), &[]).unwrap();
    assert_eq!(rendered(&title), ["New", "<title>New</title>Ada!", "Text"]);
    let own = whole(TemplateSource::new("--subject", "Own"));
    let replaced = own.replaced(new(), &[]).unwrap();
    assert_eq!(rendered(&replaced)[0], "Own");
    let stored: Templates =
        serde_json::from_str(&serde_json::to_string(&replaced).unwrap()).unwrap();
    assert_eq!(rendered(&stored), rendered(&replaced));
    let wrong = own.replaced(vec![(TemplatePart::Text, TemplateSource::new("t", "{{ x"))], &[]);
    assert_eq!(wrong.unwrap_err()[0].line, 1);
}

fn refused(text: &str, allowed: &[&str]) -> Vec<String> {
    let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    let source = (TemplatePart::Html, TemplateSource::new("mail.html", text));
    let compiled = Templates::compile([source], &allowed);
    compiled.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

const ALL: [&str; 4] = ["encoded-placeholder", "foreign-tag", "swallowed-text", "image"];

/// One fault on line 2 that begins so, and none once it is allowed.
fn assert_mistake(mistake: &str, text: &str, begin: &str) {
    let text = format!("<p>\n{text}");
    let faults = refused(&text, &[]);
    assert_eq!(faults.len(), 1, "{text}: {faults:?}");
    assert!(faults[0].starts_with(&format!("mail.html:2: {begin}")), "{text}: {faults:?}");
    assert!(faults[0].ends_with(&format!("--allow {mistake}")), "{faults:?}");
    assert_eq!(refused(&text, &[mistake]), <Vec<String>>::new(), "{text}");
    let others: Vec<_> = ALL.into_iter().filter(|other| *other != mistake).collect();
    assert_eq!(refused(&text, &others).len(), 1, "{text}");
}

#[test]
fn a_placeholder_that_an_editor_encoded_is_refused() {
    for text in [
        "<a href=\"https://x.example/?t=%7B%7B%20token%20%7D%7D\">",
        "<a href=\"https://x.example/?t=%7b%7btoken%7d%7d\">{{ name }}",
        "<a href=\"https://x.example/?t=%257B%257Btoken%257D%257D\">",
        "&#123;&#123; token &#125;&#125;",
        "&#x7B;&#x7b; token &#x7D;&#x7d;",
        "&lbrace;&lbrace; token &rbrace;&rbrace;",
        "&lcub;&lcub;token|default(&quot;a&quot;)&rcub;&rcub;",
        "{&#123; token &#125;}",
        "%7B{ token }%7D",
        "&#123;% if a %&#125;",
        "%7B%25 if a %25%7D",
    ] {
        let found = text.find(['%', '&', '{']).unwrap();
        let tag: String = text[found..].chars().take(8).collect();
        assert_mistake("encoded-placeholder", text, &tag);
    }
}

#[test]
fn tags_that_only_other_systems_have_are_refused_also_beside_columns() {
    for tag in [
        "*|FNAME|*",
        "*|IF:VIP=1|*",
        "%%first_name%%",
        "%%=v(@name)=%%",
        "%recipient.name%",
        "${first_name}",
        "#{user.name}",
        "<%= name %>",
        "{$name}",
        "{!Contact.FirstName}",
    ] {
        assert_mistake("foreign-tag", &format!("Dear {tag},"), tag);
        assert_mistake("foreign-tag", &format!("Dear {{{{ name }}}} {tag},"), tag);
    }
    assert_mistake("foreign-tag", "<a href=\"*|UNSUB|*\">Leave</a>", "*|UNSUB|*: ");
    assert_eq!(refused("*|A|* *|B|*\n*|C|*", &[]).len(), 3);
    // A title is a part of the HTML and a template of its own.
    let html = TemplateSource::new("mail.html", "<title>*|A|*</title>");
    let parts = [(TemplatePart::Subject, html.title().unwrap()), (TemplatePart::Html, html)];
    assert_eq!(Templates::compile(parts, &[]).unwrap_err().len(), 1);
}

#[test]
fn names_in_brackets_are_refused_in_a_template_that_uses_no_column() {
    for tag in ["[first_name]", "[First Name]", "{FNAME}", "{ email }", "%FIRSTNAME%", "[[name]]"] {
        let bare = tag.trim_start_matches("[[").trim_end_matches("]]");
        assert_mistake(
            "foreign-tag",
            &format!("Dear {tag},"),
            if bare == "name" { "[name]" } else { tag },
        );
        assert_eq!(refused(&format!("{{{{ x }}}} {tag}"), &[]), <Vec<String>>::new(), "{tag}");
    }
    assert_mistake("foreign-tag", "<p>[unsubscribe]", "[unsubscribe]");
    assert_eq!(refused("<a href='https://x'>[unsubscribe]</a>", &[]), <Vec<String>>::new());
}

#[test]
fn text_that_a_comment_of_css_swallows_is_refused() {
    for text in [
        "<style>@media print{#outlook a{}}</style>Dear {{ name }}<style>a{b:#}</style>",
        "<STYLE>@media print{#a{}}\n@media screen{b{c:#}}</STYLE>",
        "<p>{#1}</p><p>The text</p><p>{2#}</p>",
        "{#a {{ name }} #}",
    ] {
        assert_mistake("swallowed-text", text, "{#");
    }
    for comment in ["{# <p>old</p> {{ name }} #}", "{#- <b> -#}", "{#todo#}", "{#\n<p>\n#}"] {
        assert_eq!(refused(comment, &[]), <Vec<String>>::new(), "{comment}");
    }
}

#[test]
fn images_that_no_recipient_can_load_are_refused() {
    for (html, address) in [
        ("<img src=\"cid:logo\">", "cid:logo"),
        ("<img alt='a' SRC='images/logo.png'>", "images/logo.png"),
        ("<img src=/logo.png>", "/logo.png"),
        ("<img src=\"//x.example/logo.png\">", "//x.example/logo.png"),
        ("<img src=\"file:///C:/logo.png\">", "file:///C:/logo.png"),
        ("<img src=\"C:\\logo.png\">", "C:\\logo.png"),
        ("<img src=\"logos/{{ name }}.png\">", "logos/{{ name }}.png"),
        ("<td class=a background=\"bg.png\">", "bg.png"),
        ("<!--[if mso]><v:fill type=\"tile\" src=\"bg.png\" /><![endif]-->", "bg.png"),
        ("<p style=\"background-image: url('bg.png')\">", "bg.png"),
        ("<style>p{background:#fff url(bg.png)}</style>", "bg.png"),
        ("<!--[if !mso]><!--><img src='a.png'><!--<![endif]-->", "a.png"),
    ] {
        assert_mistake("image", html, &format!("{address}: is no image"));
    }
}

#[test]
fn other_languages_and_css_that_are_no_jinja_are_named_with_their_line() {
    for (text, begin) in [
        ("{{{first_name}}}", "is Handlebars or Mustache; write Jinja"),
        ("{{#if x}}y{{/if}}", "is Handlebars"),
        ("{{> header}}", "is Handlebars"),
        ("{{#each items}}{{this}}{{/each}}", "is Handlebars"),
        ("{% assign a = 1 %}", "is Liquid; write Jinja"),
        ("{%- unless a %}x{% endunless %}", "is Liquid"),
        ("{{ name | default: 'friend' }}", "is Liquid"),
        ("{% if a contains 'b' %}c{% endif %}", "is Liquid"),
        (
            "<style>{#a{b:c}</style>\n\n{{ name }}",
            "begins a comment with {#, and no #} ends it: in CSS",
        ),
        ("Now {%} off", "must be valid: "),
        ("100 {%", "must be valid: unexpected end of input, expected keyword; if {% begins no"),
        ("<style>p{%margin:0}</style>", "must be valid: unknown statement margin; if {% begins no"),
        ("{{ row[&#39;a b&#39;] }}", "has HTML in a placeholder"),
        ("{{&name}}", "is Handlebars"),
        ("{{&nbsp;name }}", "has HTML in a placeholder"),
        ("{{ name<br> }}", "has HTML in a placeholder"),
        (
            "{{ first name }}",
            "must be valid: unexpected identifier, expected end of variable block; a column",
        ),
    ] {
        let faults = refused(&format!("<p>\n{text}"), &ALL);
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        let said = format!("mail.html:2: template: {begin}");
        assert!(faults[0].starts_with(&said), "{text}: {faults:?}");
    }
}

#[test]
fn an_ordinary_newsletter_is_taken_as_it_is() {
    let text = include_str!("../../../tests/newsletter.html");
    assert_eq!(refused(text, &[]), <Vec<String>>::new());
    let columns = json!({
        "to": "ada@x.example", "id": "1+1", "first_name": "Ada", "city": "", "hero": "https://x.example/a?b=c",
        "unsubscribe_url": "https://x.example/out?t=a+b", "x": "1",
    });
    let html = rendered(TemplatePart::Html, text, &columns);
    assert!(html.as_ref().is_ok_and(|html| html.contains("id=1%2B1")), "{html:?}");
    assert_eq!(subject(text, &columns), "November\u{a0}offers for Ada – 20% off");
}
