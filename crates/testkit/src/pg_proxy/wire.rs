//! As much of Postgres's wire protocol as it takes to see a statement go by.

use std::collections::HashMap;

use bytes::{Buf, Bytes, BytesMut};

/// Cuts one side's stream into messages.
#[derive(Debug)]
pub(super) struct Messages {
    buffer: BytesMut,
    /// A client's first messages have no type byte.
    startup: bool,
}

/// The code of a startup message proper, protocol 3.x; requests for encryption come before it.
const PROTOCOL_MAJOR: u32 = 3;

impl Messages {
    pub(super) fn of_client() -> Self {
        Self { buffer: BytesMut::new(), startup: true }
    }

    pub(super) fn of_server() -> Self {
        Self { buffer: BytesMut::new(), startup: false }
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete message, type byte and length included.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let type_byte = usize::from(!self.startup);
        let mut head = self.buffer.get(type_byte..type_byte + 4)?;
        let end = type_byte + usize::try_from(head.get_u32()).ok()?.max(4);
        if self.buffer.len() < end {
            return None;
        }
        let message = self.buffer.split_to(end).freeze();
        if self.startup {
            let code = message.get(4..8).map(|mut code| code.get_u32()).unwrap_or_default();
            self.startup = code >> 16 != PROTOCOL_MAJOR;
        }
        Some(message)
    }
}

/// Follows which statement a client executes; prepared ones are known by name.
#[derive(Debug, Default)]
pub(super) struct Statements(HashMap<Bytes, String>);

impl Statements {
    /// The text of the statement that `message` starts, if it starts one.
    pub(super) fn started_by(&mut self, message: &Bytes) -> Option<String> {
        let mut fields = message.get(5..)?.split(|byte| *byte == 0);
        match message.first()? {
            b'Q' => Some(String::from_utf8_lossy(fields.next()?).into_owned()),
            b'P' => {
                let name = Bytes::copy_from_slice(fields.next()?);
                self.0.insert(name, String::from_utf8_lossy(fields.next()?).into_owned());
                None
            }
            b'B' => {
                let (_portal, name) = (fields.next()?, fields.next()?);
                self.0.get(name).cloned()
            }
            _ => None,
        }
    }
}

/// Whether `message`, of the server, says that everything asked so far is done.
pub(super) fn is_ready_for_query(message: &Bytes) -> bool {
    message.first() == Some(&b'Z')
}

pub(super) fn is_commit(statement: &str) -> bool {
    statement.trim().trim_end_matches(';').eq_ignore_ascii_case("commit")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    #[test]
    fn a_statement_is_found_in_a_stream_that_arrives_byte_by_byte() {
        let startup = [&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat();
        let hello = [&9_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes(), &[0]].concat();
        let parse = message(b'P', b"s1\0commit;\0\0\0");
        let stream =
            [startup, hello, parse, message(b'B', b"\0s1\0\0\0"), message(b'Q', b"COMMIT\0")].concat();
        let (mut messages, mut statements) = (Messages::of_client(), Statements::default());
        let mut found = Vec::new();
        for byte in stream {
            messages.extend(&[byte]);
            while let Some(message) = messages.next() {
                found.extend(statements.started_by(&message));
            }
        }
        assert_eq!(found, ["commit;", "COMMIT"]);
        assert!(found.iter().all(|statement| is_commit(statement)));
        assert!(!is_commit("commit prepared 'x'"));
    }
}
