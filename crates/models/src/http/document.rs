//! One small document beside the conversation: a listing of models, a server's own description.
//!
//! Goes the same roads as a conversation, with the same headers, and keeps the same secrets. What a document means is
//! `probe.rs`.

use reqwest::{Url, header::HeaderMap};
use serde_json::Value;

use super::{Endpoint, Road, client, unreachable_server};
use crate::address;
use posse_session::{ModelError, ModelFailure};

/// The longest listing there is, a router's, has one; what is longer is no listing.
const DOCUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What a server said, whether it was good news or not.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Document {
    pub(crate) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body of good news, when it is JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok().filter(|_| self.is_good())
    }
}

impl Endpoint {
    /// Where the conversation goes, when there is an address.
    pub(crate) fn url(&self) -> Result<&Url, ModelError> {
        self.url.as_ref().map_err(|words| ModelError::new(ModelFailure::BadRequest, words))
    }

    /// What is at another address of the same server, asked for with the key.
    pub(crate) async fn document(&self, url: Url) -> Result<Document, ModelError> {
        let answer = document(url, self.headers.clone(), None).await;
        answer.map_err(|error| ModelError { words: self.told(&error.words), ..error })
    }
}

/// What is at an address. With a body it is posted there.
pub(crate) async fn document(url: Url, headers: HeaderMap, body: Option<String>) -> Result<Document, ModelError> {
    tracing::debug!(url = address::shown(&url), "document");
    let client = client(Road::to(&url))?;
    let request = match body {
        Some(body) => client.post(url.clone()).body(body),
        None => client.get(url.clone()),
    };
    let mut response = request.headers(headers).send().await.map_err(|error| unreachable_server(&url, &error))?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await
        && body.len() < DOCUMENT_BYTES_MAX
    {
        body.extend_from_slice(&bytes[..bytes.len().min(DOCUMENT_BYTES_MAX - body.len())]);
    }
    Ok(Document { status, body })
}
