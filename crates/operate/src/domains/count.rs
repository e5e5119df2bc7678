use std::collections::BTreeMap;
use std::io::Read;

use tidegate_core::email::Address;
use tidegate_core::limits::LimitKey;

use crate::send::{InputFault, InputFormat, InputRows, column_names, fields};
use crate::text_file::read_text;

/// The columns that have the recipient, if the first line names columns.
const COLUMNS: [&str; 3] = ["to", "to_address", "email"];

/// The recipients of a file, counted by domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainCounts(BTreeMap<String, u64>);

impl DomainCounts {
    /// Adds the recipients of `input`, which is called `file` in faults: the `column` of a CSV, or its column `to`,
    /// `to_address` or `email`, or else an address or a domain at the beginning of each line.
    ///
    /// ```
    /// use tidegate_operate::domains::DomainCounts;
    /// let mut counts = DomainCounts::default();
    /// counts.read("list.csv", None, "name,to\nAda,Ada@example.com\nBob,bob@gmail.com\n".as_bytes())?;
    /// counts.read("domains.txt", None, "gmail.com\nexample.org\n".as_bytes())?;
    /// assert_eq!((counts.get("gmail.com"), counts.get("example.com"), counts.recipients()), (2, 1, 4));
    /// # Ok::<(), Box<tidegate_operate::send::InputFault>>(())
    /// ```
    ///
    /// # Errors
    /// The first row without an address, or one that cannot be read.
    pub fn read(
        &mut self,
        file: &str,
        column: Option<&str>,
        input: impl Read,
    ) -> Result<(), Box<InputFault>> {
        let text = read_text(file, input)?;
        let header = text.lines().next().unwrap_or_default();
        match recipient_column(header, column) {
            Some((delimiter, column)) => self.read_csv(file, delimiter, &column, text.as_bytes()),
            None => (1..).zip(text.lines()).try_for_each(|(number, text)| {
                let is_header = number == 1 && !text.contains(['@', '.']);
                let entries = if is_header { Vec::new() } else { fields(text) };
                entries.iter().try_for_each(|entry| self.add(file, number, entry))
            }),
        }
    }

    fn read_csv(
        &mut self,
        file: &str,
        delimiter: u8,
        column: &str,
        input: impl Read,
    ) -> Result<(), Box<InputFault>> {
        let rows = InputRows::new(file, InputFormat::Csv { delimiter, multiline: true }, input)?;
        let columns = rows.named_columns().unwrap_or_default();
        if !columns.iter().any(|known| known.eq_ignore_ascii_case(column)) {
            let problem = format!("must be one of {}", column_names(columns.iter()));
            return Err(Box::new(InputFault::new(file, 1, "column", problem, column)));
        }
        for row in rows {
            let row = row?;
            self.add(file, row.line, &row.text(column).unwrap_or_default())?;
        }
        Ok(())
    }

    fn add(&mut self, file: &str, line: u64, entry: &str) -> Result<(), Box<InputFault>> {
        let domain = if entry.contains('@') {
            let address = Address::parse(entry).map_err(|error| error.to_string());
            address.map(|address| address.domain().to_ascii_lowercase())
        } else {
            let key: Result<LimitKey, _> = format!("domain:{entry}").parse();
            let single = key.ok().filter(|key| key.names().len() == 1);
            let problem = "must be an address like ada@example.com, or a domain";
            single.map(|key| key.name().to_owned()).ok_or_else(|| problem.to_owned())
        };
        let domain = domain
            .map_err(|problem| Box::new(InputFault::new(file, line, "address", problem, entry)))?;
        *self.0.entry(domain).or_default() += 1;
        Ok(())
    }

    pub fn get(&self, domain: &str) -> u64 {
        self.0.get(domain).copied().unwrap_or_default()
    }

    pub fn recipients(&self) -> u64 {
        self.0.values().sum()
    }

    /// The domains with their recipients, most recipients first.
    pub fn by_size(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = self.0.iter().map(|(domain, n)| (&**domain, *n)).collect();
        all.sort_by_key(|(_, recipients)| std::cmp::Reverse(*recipients));
        all
    }
}

/// The delimiter and the recipients' column, if the first line names columns.
fn recipient_column(header: &str, asked: Option<&str>) -> Option<(u8, String)> {
    let header = header.trim();
    let delimiter = [b',', b';', b'\t'].into_iter().find(|d| header.contains(char::from(*d)));
    let delimiter = delimiter.unwrap_or(b',');
    if let Some(asked) = asked {
        return Some((delimiter, asked.to_owned()));
    }
    let names = header.split(char::from(delimiter)).map(|name| name.trim().trim_matches('"'));
    let is_known = |name: &&str| COLUMNS.iter().any(|known| known.eq_ignore_ascii_case(name));
    names.filter(is_known).map(|name| (delimiter, name.to_owned())).next()
}
