//! A list of addresses, such as those that unsubscribed, or those of mails that were cancelled.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tidegate_core::channel::Content;
use tidegate_core::email::Address;
use tidegate_core::exclusions::AddressKey;
use tidegate_core::text_message::check_phone_number;

use super::csv_rows::utf8;
use super::fault::InputFault;
use super::fingerprint::hex;

/// A set of addresses, of which upper and lower case are the same, and of phone numbers.
///
/// It needs about 16 bytes for each address: it keeps keys of 64 bits. With a million addresses and a million
/// recipients, one recipient is taken for another with a probability of about 1 in 18 million.
#[derive(Debug, Default)]
pub struct AddressList {
    addresses: BTreeSet<AddressKey>,
    files: Sha256,
}

impl AddressList {
    /// Adds the addresses and phone numbers of `input`, which is called `file` in faults: one at the beginning of each line, alone
    /// as the first field of a CSV, or all of `to` in JSON Lines, as `tidegate dead export` writes them. Empty lines,
    /// lines that begin with `#`, and a first line without an address are left out.
    ///
    /// ```
    /// use tidegate_operate::send::AddressList;
    /// let mut list = AddressList::default();
    /// list.read("left.csv", "address,since\nAda@example.com,2026\n".as_bytes())?;
    /// let fault = list.read("left.txt", "\nada\n".as_bytes()).err().map(|fault| fault.to_string());
    /// assert!(fault.unwrap().starts_with("left.txt:2: address: must be one address"));
    /// # Ok::<(), Box<tidegate_operate::send::InputFault>>(())
    /// ```
    ///
    /// # Errors
    /// The first line that has no address, or cannot be read.
    pub fn read(&mut self, file: &str, input: impl Read) -> Result<(), Box<InputFault>> {
        each_line(file, input, |number, bytes, text| {
            self.files.update(bytes);
            if number == 1 && !text.contains(['@', '+']) {
                return Ok(());
            }
            for field in fields(text) {
                let recipient = recipient(&field)
                    .map_err(|error| InputFault::new(file, number, "address", error, &field))?;
                self.add(&recipient);
            }
            Ok(())
        })
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

/// Calls `take` with the number of each line, its bytes, and its text, which is empty for a comment.
fn each_line(
    file: &str,
    input: impl Read,
    mut take: impl FnMut(u64, &[u8], &str) -> Result<(), Box<InputFault>>,
) -> Result<(), Box<InputFault>> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = input.read_until(b'\n', &mut line).map_err(|error| {
            InputFault::bare(file, number, "line", format!("must be readable: {error}"))
        })?;
        if read == 0 {
            break;
        }
        let text = utf8(file, number, || "line".to_owned(), &line)?;
        let text = text.trim_start_matches('\u{feff}').trim();
        take(number, &line, if text.starts_with('#') { "" } else { text })?;
    }
    Ok(())
}

/// The entries of a line: those in `to` of a JSON object, or else the first field; none of an empty line.
fn fields(line: &str) -> Vec<String> {
    if line.is_empty() {
        return Vec::new();
    }
    match serde_json::from_str(line) {
        Ok(ExportedMail { to: Recipients::All(all) }) => return all,
        Ok(ExportedMail { to: Recipients::One(one) }) => return vec![one],
        Err(_) => {}
    }
    let field = line.split([',', ';', '\t']).next().unwrap_or_default();
    vec![field.trim_matches(|c: char| c == '"' || c.is_whitespace()).to_owned()]
}

/// The recipients in a line of JSON.
#[derive(Deserialize)]
struct ExportedMail {
    to: Recipients,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Recipients {
    All(Vec<String>),
    One(String),
}
