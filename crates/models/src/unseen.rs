//! Images for a model that takes none: words in their place, so that it knows that there was something to see.
//!
//! A request with an image is refused by such a model, and the session with it. Pure: the same message gives the same words.

use std::borrow::Cow;

use posse_session::{Block, Message, ModelFacts};

/// The message as this model can take it.
pub(crate) fn visible_to<'a>(facts: &ModelFacts, message: &'a Message) -> Cow<'a, Message> {
    let has_images = message.blocks.iter().any(|block| match block {
        Block::Image { .. } => true,
        Block::Result { images, .. } => !images.is_empty(),
        _ => false,
    });
    if facts.images || !has_images {
        return Cow::Borrowed(message);
    }
    let worded = |block: &Block| match block {
        Block::Image { mime, .. } => {
            Block::Text { text: format!("(An image, {mime}, is attached here, but this model cannot see images.)") }
        }
        Block::Result { id, tool, text, error, images } if !images.is_empty() => {
            let count = if images.len() == 1 { "1 image is".to_owned() } else { format!("{} images are", images.len()) };
            let text =
                format!("{text}\n({count} attached, but this model cannot see images. Go on without, or ask the user what is in it.)");
            Block::Result { id: id.clone(), tool: tool.clone(), text: text.trim_start().to_owned(), error: *error, images: Vec::new() }
        }
        other => other.clone(),
    };
    Cow::Owned(Message { role: message.role, blocks: message.blocks.iter().map(worded).collect() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use posse_session::Role;

    use crate::provider::{Api, FactsOverride, ProviderSpec, build};

    use super::*;

    fn shown() -> Message {
        let png = || ("image/png".to_owned(), "QUJD".to_owned());
        let result =
            |id: &str, text: &str, images| Block::Result { id: id.into(), tool: "read".into(), text: text.into(), error: false, images };
        Message {
            role: Role::User,
            blocks: vec![
                result("c1", "a.png is an image", vec![png()]),
                result("c2", "", vec![png(), png()]),
                result("c3", "plain", Vec::new()),
                Block::Image { mime: "image/gif".into(), data: "QUJD".into() },
                Block::Text { text: "look".into() },
            ],
        }
    }

    fn encoded(api: Api, images: bool) -> String {
        let models = BTreeMap::from([("m".to_owned(), FactsOverride { images: Some(images), ..FactsOverride::default() })]);
        let spec = ProviderSpec {
            name: "p".into(),
            api,
            base_url: "http://127.0.0.1:1".into(),
            api_key: None,
            key_place: None,
            headers: Vec::new(),
            models,
        };
        String::from_utf8(build(&spec, "m").encode(&shown()).to_vec()).unwrap()
    }

    #[test]
    fn a_model_that_sees_nothing_is_told_what_it_misses() {
        assert_eq!(
            encoded(Api::Anthropic, false),
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a.png is an image\n(1 image is attached, but this model cannot see images. Go on without, or ask the user what is in it.)"},{"type":"tool_result","tool_use_id":"c2","content":"(2 images are attached, but this model cannot see images. Go on without, or ask the user what is in it.)"},{"type":"tool_result","tool_use_id":"c3","content":"plain"},{"type":"text","text":"(An image, image/gif, is attached here, but this model cannot see images.)"},{"type":"text","text":"look"}]}"#
        );
        assert_eq!(
            encoded(Api::OpenAi, false),
            r#"{"role":"tool","tool_call_id":"c1","content":"a.png is an image\n(1 image is attached, but this model cannot see images. Go on without, or ask the user what is in it.)"},{"role":"tool","tool_call_id":"c2","content":"(2 images are attached, but this model cannot see images. Go on without, or ask the user what is in it.)"},{"role":"tool","tool_call_id":"c3","content":"plain"},{"role":"user","content":"(An image, image/gif, is attached here, but this model cannot see images.)\n\nlook"}"#
        );
        for api in [Api::Anthropic, Api::OpenAi, Api::OpenAiResponses, Api::Gemini] {
            assert_eq!(encoded(api, true).matches("QUJD").count(), 4);
            assert!(!encoded(api, true).contains("cannot see"));
            assert_eq!((encoded(api, false).matches("QUJD").count(), encoded(api, false).matches("cannot see").count()), (0, 3));
            assert_eq!(encoded(api, false), encoded(api, false));
        }
    }
}
