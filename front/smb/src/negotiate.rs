//! NEGOTIATE: which dialect, cipher and signature a connection uses from here on (MS-SMB2 3.3.5.3, 3.3.5.4).

use std::sync::Arc;

use bytes::Bytes;

use crate::chain::{self, Reply};
use crate::connection::{Connection, Ended, Reading, Room, TRANSFER_BYTES_MAX, lock};
use crate::dialect::Dialect;
use crate::security::seal::CipherKind;
use crate::security::sign::SigningAlgorithm;
use crate::security::spnego;
use crate::status::Status;
use crate::wire::header::{Header, flag};
use crate::wire::negotiate::{
    ANY_DIALECT, Chosen, Request, Response, SIGNING_ENABLED, SIGNING_REQUIRED, Validation, capability, offers_smb2,
};

/// What a connection agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Negotiated {
    pub dialect: Dialect,
    pub client: [u8; 16],
    pub cipher: Option<CipherKind>,
    pub signing: SigningAlgorithm,
    capabilities: u32,
    /// What the client said, to be confirmed by 3.0 and 3.0.2.
    request: (u32, u16, Vec<u16>),
}

impl Negotiated {
    pub fn is_3(&self) -> bool {
        self.dialect >= Dialect::Smb30
    }

    pub fn is_3_1_1(&self) -> bool {
        self.dialect == Dialect::Smb311
    }
}

const SECURITY_MODE: u16 = SIGNING_ENABLED | SIGNING_REQUIRED;

/// The newest dialect both sides know.
fn choose_dialect(offered: &[u16]) -> Option<Dialect> {
    offered.iter().filter_map(|number| Dialect::from_number(*number)).max()
}

/// The client's order counts; what is not known here is passed over.
fn choose_cipher(offered: &[u16]) -> Option<CipherKind> {
    offered.iter().find_map(|number| CipherKind::from_number(*number))
}

fn choose_signing(offered: Option<&[u16]>) -> Option<SigningAlgorithm> {
    offered?.iter().find_map(|number| SigningAlgorithm::from_number(*number))
}

/// What is agreed on with a client that says this.
fn agree(request: &Request) -> Result<Negotiated, Status> {
    if request.dialects.is_empty() {
        return Err(Status::INVALID_PARAMETER);
    }
    let chosen = choose_dialect(&request.dialects).ok_or(Status::NOT_SUPPORTED)?;
    let offers_encryption = request.capabilities & capability::ENCRYPTION != 0;
    let (cipher, signing) = match chosen {
        Dialect::Smb311 if !request.contexts.offers_sha_512 => return Err(Status::INVALID_PARAMETER),
        Dialect::Smb311 => (
            choose_cipher(request.contexts.ciphers.as_deref().unwrap_or_default()),
            choose_signing(request.contexts.signing.as_deref()).unwrap_or(SigningAlgorithm::AesCmac),
        ),
        Dialect::Smb21 => (None, SigningAlgorithm::HmacSha256),
        _ => (offers_encryption.then_some(CipherKind::Aes128Ccm), SigningAlgorithm::AesCmac),
    };
    let mut capabilities = capability::LEASING | capability::LARGE_MTU;
    if chosen != Dialect::Smb21 {
        capabilities |= capability::MULTI_CHANNEL | capability::PERSISTENT_HANDLES;
    }
    if matches!(chosen, Dialect::Smb30 | Dialect::Smb302) && cipher.is_some() {
        capabilities |= capability::ENCRYPTION;
    }
    Ok(Negotiated {
        dialect: chosen,
        client: request.client,
        cipher,
        signing,
        capabilities,
        request: (request.capabilities, request.security_mode, request.dialects.clone()),
    })
}

/// A client that can speak SMB1 asks for SMB2 in the old words; the answer is to ask again in the new ones.
pub fn first_of_smb1(connection: &Arc<Connection>, frame: &[u8]) -> Result<(), Ended> {
    if connection.agreed().is_some() || !offers_smb2(frame) || !lock(&connection.credits).use_ids(0, 1) {
        return Err(Ended::Broken("SMB1"));
    }
    let response = response(connection, ANY_DIALECT, capability::LEASING | capability::LARGE_MTU, None);
    let header = Header {
        credit_charge: 0,
        status: 0,
        command: 0,
        credits: lock(&connection.credits).grant(1, 1, false),
        flags: flag::RESPONSE,
        next: 0,
        message_id: 0,
        async_id: 0,
        tree_id: 0,
        session_id: 0,
        signature: [0; 16],
    };
    // Its number is used once: there is one such answer at most.
    chain::send_plain(connection, header, response, None);
    Ok(())
}

fn response(connection: &Connection, dialect: u16, capabilities: u32, chosen: Option<Chosen>) -> Vec<u8> {
    let server = &connection.server;
    let token = spnego::hint();
    Response {
        security_mode: SECURITY_MODE,
        dialect,
        server: server.guid,
        capabilities,
        bytes_max: TRANSFER_BYTES_MAX,
        now: server.shell.clock.now().filetime(),
        token: &token,
        chosen,
    }
    .encode()
}

pub fn negotiate(reading: &mut Reading, header: &Header, message: &Bytes, room: Room) -> Result<(), Ended> {
    let connection = reading.connection.clone();
    if connection.agreed().is_some() {
        return Err(Ended::Broken("it negotiates twice"));
    }
    let agreed = Request::decode(message).ok_or(Status::INVALID_PARAMETER).and_then(|request| {
        let offered = (request.contexts.ciphers.is_some(), request.contexts.signing.is_some());
        Ok((agree(&request)?, offered))
    });
    let (negotiated, (offered_ciphers, offered_signing)) = match agreed {
        Ok(agreed) => agreed,
        Err(status) => {
            chain::answer_plain(&connection, header, Reply::error(status), room);
            return Ok(());
        }
    };
    let ids = &connection.server.shell.ids;
    let chosen = negotiated.is_3_1_1().then(|| Chosen {
        salt: [ids.next(), ids.next()].map(|id| id.0.to_le_bytes()).concat().try_into().unwrap_or([0; 32]),
        cipher: offered_ciphers.then(|| negotiated.cipher.map_or(0, CipherKind::number)),
        signing: offered_signing.then(|| negotiated.signing.number()),
    });
    let body = response(&connection, negotiated.dialect.number(), negotiated.capabilities, chosen);
    let sent = chain::answer_plain(&connection, header, Reply::of(body), room);
    reading.preauth.absorb(message);
    reading.preauth.absorb(&sent);
    // It was empty when this began, and nobody else fills it.
    let _ = connection.negotiated.set(negotiated);
    Ok(())
}

/// FSCTL_VALIDATE_NEGOTIATE_INFO: did somebody on the way change what was said? Then there is no answer.
pub fn validate(connection: &Connection, input: &[u8]) -> Result<Vec<u8>, Status> {
    let said = Validation::decode(input).ok_or(Status::INVALID_PARAMETER)?;
    let agreed = connection.agreed().filter(|agreed| !agreed.is_3_1_1()).ok_or(Status::NOT_SUPPORTED)?;
    let request = (said.capabilities, said.security_mode, said.dialects);
    if request != agreed.request || said.client != agreed.client {
        connection.broken.cancel();
        return Err(Status::ACCESS_DENIED);
    }
    let mut out = Vec::with_capacity(24);
    out.extend_from_slice(&agreed.capabilities.to_le_bytes());
    out.extend_from_slice(&connection.server.guid);
    out.extend_from_slice(&SECURITY_MODE.to_le_bytes());
    out.extend_from_slice(&agreed.dialect.number().to_le_bytes());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::negotiate::Contexts;

    fn request(dialects: &[u16], capabilities: u32, contexts: Contexts) -> Request {
        Request { security_mode: 1, capabilities, client: [1; 16], dialects: dialects.to_vec(), contexts }
    }

    #[test]
    fn the_newest_common_dialect_is_agreed_on() {
        let sha = Contexts { offers_sha_512: true, ..Contexts::default() };
        for (dialects, contexts, expected) in [
            (&[0x0202][..], Contexts::default(), Err(Status::NOT_SUPPORTED)),
            (&[], Contexts::default(), Err(Status::INVALID_PARAMETER)),
            (&[0x0202, 0x0210], Contexts::default(), Ok(0x0210)),
            (&[0x0210, 0x0300], Contexts::default(), Ok(0x0300)),
            (&[0x0302, 0x0300], Contexts::default(), Ok(0x0302)),
            (&[0x0210, 0x0311], sha, Ok(0x0311)),
            (&[0x0210, 0x0311], Contexts::default(), Err(Status::INVALID_PARAMETER)),
            (&[0x02FF], Contexts::default(), Err(Status::NOT_SUPPORTED)),
        ] {
            let agreed = agree(&request(dialects, 0, contexts)).map(|agreed| agreed.dialect.number());
            assert_eq!(agreed, expected, "{dialects:04x?}");
        }
    }

    #[test]
    fn ciphers_and_signatures_are_chosen_in_the_order_of_the_client() {
        let offer = |ciphers: Option<&[u16]>, signing: Option<&[u16]>| {
            let contexts = Contexts {
                offers_sha_512: true,
                ciphers: ciphers.map(<[u16]>::to_vec),
                signing: signing.map(<[u16]>::to_vec),
            };
            let agreed = agree(&request(&[0x0311], 0, contexts)).expect("a dialect");
            (agreed.cipher, agreed.signing)
        };
        assert_eq!(offer(None, None), (None, SigningAlgorithm::AesCmac));
        assert_eq!(offer(Some(&[9, 4, 2]), Some(&[7, 2, 1])), (Some(CipherKind::Aes256Gcm), SigningAlgorithm::AesGmac));
        assert_eq!(offer(Some(&[]), Some(&[0])), (None, SigningAlgorithm::HmacSha256));
        let old = |capabilities| agree(&request(&[0x0300], capabilities, Contexts::default())).expect("a dialect");
        assert_eq!(old(0).cipher, None);
        assert_eq!(old(capability::ENCRYPTION).cipher, Some(CipherKind::Aes128Ccm));
    }
}
