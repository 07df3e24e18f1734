//! What single servers want differently in a request.
//!
//! Many servers speak Chat Completions. How they differ in their answers is tolerated in `fold.rs` without asking who they
//! are, and what one merely refuses is found out by its refusal (`openai.rs`). Here is only what must be right the first
//! time: the bytes of a message are kept for ever. Told by the provider's name, its address or the model's name. Pure.

use crate::{address::is_azure, provider::known_providers};

/// One server's ways, and which of the blocks in a transcript are its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// As the user calls the provider.
    pub(crate) provider: String,
    /// The model's name on the wire.
    pub(crate) model: String,
    /// How the output limit is called at first.
    pub(crate) limit: Limit,
    /// A message with calls is refused unless the thinking before them comes back with it.
    pub(crate) echoes_thinking: bool,
    /// Ids have nine letters or digits, and the user does not speak right after a tool.
    pub(crate) is_mistral: bool,
    /// Takes `stream_options`. Mistral counts tokens without being asked, and refuses to be.
    pub(crate) takes_stream_options: bool,
    /// A schema for the answer leaves the model free to call tools. Elsewhere it may force every word into the schema.
    pub(crate) answers_beside_tools: bool,
    /// A service that streams calls reliably, so that an empty answer is what it says.
    pub(crate) is_service: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Limit {
    #[default]
    MaxTokens,
    MaxCompletionTokens,
}

impl Limit {
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::MaxTokens => Self::MaxCompletionTokens,
            Self::MaxCompletionTokens => Self::MaxTokens,
        }
    }
}

/// Models of Mistral check ids and order wherever they run: the check is in their tokenizer.
const MISTRAL_MODELS: &[&str] = &["mistral", "ministral", "magistral", "devstral", "codestral", "mixtral", "pixtral"];

/// Models that want their thinking back, at servers that pass it on to them.
const ECHOING_MODELS: &[&str] = &["deepseek", "kimi"];

impl Dialect {
    pub(crate) fn of(provider: &str, host: Option<&str>, model: &str) -> Self {
        let named = |names: &[&str]| names.iter().any(|name| model.to_ascii_lowercase().contains(name));
        let is = |name: &str, domain: &str| provider == name || host.is_some_and(|host| host.ends_with(domain));
        let is_openai = host == Some("api.openai.com");
        let is_azure = is_azure(provider, host);
        let is_service = is_azure || host.is_some_and(is_known_host);
        let is_mistral = is("mistral", "api.mistral.ai");
        let is_router = is("openrouter", "openrouter.ai");
        let echoes = is("deepseek", "api.deepseek.com") || is("moonshot", ".moonshot.ai") || is("moonshot", ".moonshot.cn");
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            // OpenAI's newer models refuse the old name; most others know only that one.
            limit: if is_openai || is_azure { Limit::MaxCompletionTokens } else { Limit::MaxTokens },
            // A service that is not theirs would refuse a field that it does not know.
            echoes_thinking: named(ECHOING_MODELS) && !is_router && (echoes || !is_service),
            is_mistral: is_mistral || named(MISTRAL_MODELS),
            takes_stream_options: !is_mistral,
            answers_beside_tools: is_openai || is_azure || is_router || is("xai", "api.x.ai"),
            is_service,
        }
    }

    /// The id as this server takes it. Pure, so a call and its result still belong together.
    pub(crate) fn call_id<'a>(&self, id: &'a str) -> std::borrow::Cow<'a, str> {
        if self.is_mistral { nine_letters(id) } else { id.into() }
    }
}

/// Whether a host is that of a provider who sells answers.
fn is_known_host(host: &str) -> bool {
    let paid = known_providers().iter().filter(|known| !known.key_env.is_empty());
    let mut hosts = paid.filter_map(|known| known.base_url.split("://").nth(1)?.split('/').next());
    hosts.any(|known| known == host)
}

/// How long Mistral's ids are, exactly.
const MISTRAL_ID_CHARS: usize = 9;

/// The id itself if it is one of Mistral's, else nine letters and digits that follow from it.
fn nine_letters(id: &str) -> std::borrow::Cow<'_, str> {
    const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if id.len() == MISTRAL_ID_CHARS && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.into();
    }
    // FNV-1a: the same for ever, on every machine. 62^9 ids make two alike in one conversation next to impossible.
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let letters = (0..MISTRAL_ID_CHARS).map(|_| {
        let letter = LETTERS[(hash % LETTERS.len() as u64) as usize];
        hash /= LETTERS.len() as u64;
        char::from(letter)
    });
    letters.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_server_is_known_by_its_name_its_address_or_its_model() {
        let row = |provider, host, model| {
            let dialect = Dialect::of(provider, Some(host), model);
            (dialect.limit.key(), dialect.echoes_thinking, dialect.is_mistral, dialect.answers_beside_tools, dialect.is_service)
        };
        let (old, new) = ("max_tokens", "max_completion_tokens");
        for (provider, host, model, expected) in [
            ("openai", "api.openai.com", "gpt-5.1", (new, false, false, true, true)),
            ("openai", "127.0.0.1", "gpt-5.1", (old, false, false, false, false)),
            ("azure", "r.openai.azure.com", "d", (new, false, false, true, true)),
            ("mine", "r.openai.azure.com", "d", (new, false, false, true, true)),
            ("deepseek", "api.deepseek.com", "deepseek-chat", (old, true, false, false, true)),
            ("mine", "api.deepseek.com", "deepseek-v4-pro", (old, true, false, false, true)),
            ("moonshot", "api.moonshot.ai", "kimi-k2.5", (old, true, false, false, true)),
            ("moonshot", "api.moonshot.ai", "moonshot-v1-8k", (old, false, false, false, true)),
            ("vllm", "127.0.0.1", "deepseek-ai/DeepSeek-V3.2", (old, true, false, false, false)),
            ("groq", "api.groq.com", "deepseek-r1-distill-llama-70b", (old, false, false, false, true)),
            ("openrouter", "openrouter.ai", "deepseek/deepseek-v3.2", (old, false, false, true, true)),
            ("mistral", "api.mistral.ai", "labs-x", (old, false, true, false, true)),
            ("vllm", "127.0.0.1", "mistralai/Devstral-Small-2", (old, false, true, false, false)),
            ("xai", "api.x.ai", "grok-4", (old, false, false, true, true)),
            ("ollama", "127.0.0.1", "qwen3", (old, false, false, false, false)),
        ] {
            assert_eq!(row(provider, host, model), expected, "{provider} at {host}: {model}");
        }
    }

    #[test]
    fn ids_for_mistral_are_nine_letters_and_always_the_same() {
        assert_eq!(nine_letters("aB3456789"), "aB3456789");
        assert_eq!(nine_letters("call_0"), "ckTj2MTct");
        let ids: Vec<String> = (0..10_000).map(|nth| nine_letters(&format!("toolu_{nth}")).into_owned()).collect();
        assert!(ids.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())));
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        for odd in ["", "call-0001", "żółć", "123456789012"] {
            assert_eq!(nine_letters(odd).len(), 9, "{odd}");
        }
    }
}
