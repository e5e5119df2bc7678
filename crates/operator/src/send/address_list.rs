//! A list of addresses, such as those that unsubscribed, or those of mails that were cancelled.

use std::collections::BTreeSet;
use std::io::Read;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidegate_core::channel::Content;
use tidegate_core::email::Address;
use tidegate_core::exclusions::AddressKey;
use tidegate_core::identity::hex;
use tidegate_core::text_message::check_phone_number;

use super::rows;
use crate::redact::AddressVisibility;
use crate::text_file::TextLines;
use tidegate_core::draft::InputFault;

/// A set of addresses, of which upper and lower case are the same, and of phone numbers.
///
/// It needs about 16 bytes for each address: it keeps keys of 64 bits. With a million addresses and a million
/// recipients, one recipient is taken for another with a probability of about 1 in 18 million.
#[derive(Debug, Default)]
pub struct AddressList {
    addresses: BTreeSet<AddressKey>,
    faults: Vec<InputFault>,
    files: Sha256,
}

impl AddressList {
    /// Adds the addresses and phone numbers of `input`, which is called `file` in faults: one at the beginning of each line, alone
    /// as the first field of a CSV, or all of `to` in JSON Lines, as `tidegate dead export` writes them. Empty lines,
    /// rows of empty cells, lines that begin with `#`, and a first line without an address are left out. Other
    /// lines without an address are [`AddressList::faults`]; those with one are added all the same.
    ///
    /// ```
    /// use tidegate_operator::send::AddressList;
    /// let mut list = AddressList::default();
    /// list.read("left.csv", "address,since\nAda@example.com,2026\n".as_bytes())?;
    /// list.read("left.txt", "\nada\nbob@example.com\n".as_bytes())?;
    /// assert!(list.faults()[0].to_string().starts_with("left.txt:2: address: must be one address"));
    /// assert_eq!((list.faults().len(), list.keys().len()), (1, 2));
    /// # Ok::<(), Box<tidegate_operator::send::InputFault>>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read, or is no text.
    pub fn read(&mut self, file: &str, input: impl Read) -> Result<(), Box<InputFault>> {
        for line in TextLines::new(file, input) {
            let (number, text) = line?;
            self.files.update(text.clone() + "\n");
            let is_header = number == 1 && !text.contains(['@', '+']);
            for field in if is_header { Vec::new() } else { fields(&text) } {
                match recipient(&field) {
                    Ok(recipient) => self.add(&recipient),
                    Err(error) => {
                        let fault = InputFault::new(file, number, "address", error, &field);
                        self.faults.push(fault.shown(AddressVisibility::Masked));
                    }
                }
            }
        }
        Ok(())
    }

    /// The faults of lines without an address, which are masked.
    pub fn faults(&self) -> &[InputFault] {
        &self.faults
    }

    /// Adds an address from another source than a file.
    pub fn add(&mut self, address: &str) {
        self.addresses.insert(AddressKey::of_text(address));
    }

    /// Whether a recipient of a message is one of the addresses.
    pub fn contain(&self, content: &Content) -> bool {
        content.to().any(|to| self.addresses.contains(&AddressKey::of_text(to)))
    }

    /// SHA-256 of all files that were read, in hex; `None` without any address.
    pub fn sha256(&self) -> Option<String> {
        (!self.addresses.is_empty()).then(|| hex(&self.files.clone().finalize()))
    }

    /// The addresses' keys.
    pub fn keys(&self) -> &BTreeSet<AddressKey> {
        &self.addresses
    }
}

/// Reads a recipient: an address, of which the part without a name is returned, or a phone number.
///
/// # Errors
/// A text that is neither; the error says what is allowed.
pub fn recipient(text: &str) -> Result<String, String> {
    if check_phone_number(text).is_ok() {
        return Ok(text.to_owned());
    }
    let address = Address::parse(text).map_err(|error| error.to_string())?;
    Ok(address.addr_spec().to_owned())
}

/// The recipients of a file that get mail.
#[derive(Debug, Default)]
pub struct RecipientFilter {
    /// Recipients that get none.
    pub exclude: AddressList,
    /// The only recipients that get any; `None` for all.
    pub only: Option<AddressList>,
    /// Recipients on the account's suppression list, which get none either.
    pub suppressed: AddressList,
    /// Recipients to whom the run went, the rest of which this is.
    pub sent: AddressList,
}

impl RecipientFilter {
    /// Whether a message is left out because of its recipients.
    pub(super) fn leaves_out(&self, content: &Content) -> bool {
        let is_other = self.only.as_ref().is_some_and(|only| !only.contain(content));
        let lists = [&self.exclude, &self.suppressed, &self.sent];
        is_other || lists.into_iter().any(|list| list.contain(content))
    }
}

/// The entries of a line: those of JSON, or else the first field; none of a comment, and of a line without any value.
fn fields(line: &str) -> Vec<String> {
    let line = line.trim();
    if line.starts_with('#') {
        return Vec::new();
    }
    if let Ok(listed) = serde_json::from_str(line) {
        return entries(listed);
    }
    let delimiter = line.find([',', ';', '\t']).map_or(b',', |at| line.as_bytes()[at]);
    let values = rows::fields(line, delimiter)
        .or_else(|_| rows::fields(&line.replace('"', ""), delimiter))
        .unwrap_or_default();
    let Some(first) = values.first().filter(|_| values.iter().any(|value| !value.is_empty()))
    else {
        return Vec::new();
    };
    // Dave <dave@example.com>, whatever the name has in it.
    let plain = first.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    vec![plain.map_or(first.as_str(), |(address, _)| address).to_owned()]
}

/// The entries in JSON: as `tidegate dead export` writes them, or in an array.
fn entries(json: Value) -> Vec<String> {
    match json {
        Value::String(one) => vec![one],
        Value::Array(all) => all.into_iter().flat_map(entries).collect(),
        mut other => match other.get_mut("to") {
            Some(to) => entries(to.take()),
            None => vec![other.to_string()],
        },
    }
}
