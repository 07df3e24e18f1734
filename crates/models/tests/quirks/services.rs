//! Services on the network: OpenRouter, DeepSeek, Moonshot, Groq, xAI, Mistral, Azure.

use posse_models::Api;
use posse_session::{Finish, ModelFailure, ReplyPart};
use serde_json::{Value, json};

use crate::{
    server::Server,
    world::{
        KEY, Nobody, ask, assistant, bodies, call, chunk, document, model, model_of, ok, raw_stream, request, result, said_ok, streamed,
        thought, tools, user,
    },
};

#[tokio::test]
async fn openrouter_thinks_in_details_that_go_back_to_it_alone_and_bills_the_answer() {
    let detail = |text: &str| json!([{ "type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0 }]);
    let signed = json!([{ "type": "reasoning.text", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0 }]);
    let sealed = json!([{ "type": "reasoning.encrypted", "data": "c2VhbA==", "id": "r1", "format": "openai-responses-v1", "index": 1 }]);
    let called = json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function", "function": { "name": "ls", "arguments": "{}" } }] });
    let chunks = [
        chunk(json!({ "role": "assistant", "content": "", "reasoning": "I look", "reasoning_details": detail("I look") }), None),
        chunk(json!({ "content": "", "reasoning": " there", "reasoning_details": detail(" there") }), None),
        chunk(json!({ "content": "", "reasoning_details": signed }), None),
        chunk(json!({ "content": "", "reasoning_details": sealed }), None),
        chunk(called, Some("tool_calls")),
        json!({ "choices": [], "usage": { "prompt_tokens": 13, "completion_tokens": 16, "cost": 0.000093, "cost_details": { "upstream_inference_cost": 0.000093 } } }),
    ];
    let waiting: String = chunks.iter().map(|chunk| format!(": OPENROUTER PROCESSING\n\ndata: {chunk}\n\n")).collect();
    let server = Server::playing([raw_stream(&(waiting + "data: [DONE]\n\n")), ok(), ok(), ok()]).await;
    let router = model_of("openrouter", Api::OpenAi, &server.url, "vendor/m1");
    let reply = ask(&*router).await.unwrap();
    let joined = json!([
        { "type": "reasoning.text", "text": "I look there", "format": "anthropic-claude-v1", "index": 0, "signature": "c2ln" },
        { "type": "reasoning.encrypted", "data": "c2VhbA==", "id": "r1", "format": "openai-responses-v1", "index": 1 },
    ]);
    let raw = json!({ "model": "vendor/m1", "reasoning_details": joined });
    let opaque = ReplyPart::Opaque { provider: "openrouter".into(), raw };
    assert_eq!(reply.parts, [thought("I look there"), opaque, call("c1", "{}")]);
    // Its own bill, not our table.
    assert_eq!((reply.usage.input, reply.usage.output, reply.usage.cost_usd), (13, 16, 0.000093));

    let told = [user("hi"), assistant(reply.parts), result("c1", "")];
    let others = [model_of("openrouter", Api::OpenAi, &server.url, "other/m2"), model_of("groq", Api::OpenAi, &server.url, "vendor/m1")];
    for model in [&router].into_iter().chain(&others) {
        model.reply(request(&**model, &tools(), &told), &Nobody).await.unwrap();
    }
    let echoed: Vec<Value> = bodies(&server)[1..].iter().map(|body| body["messages"][2]["reasoning_details"].clone()).collect();
    assert_eq!(echoed, [joined, Value::Null, Value::Null]);
}

#[tokio::test]
async fn openrouter_breaks_off_with_an_error_in_a_chunk() {
    let so_far = chunk(json!({ "content": "so far" }), None);
    for (error, failure, words) in [
        (json!({ "code": 502, "message": "Provider disconnected" }), ModelFailure::Server, "Provider disconnected"),
        (json!({ "code": "server_error", "message": "gone" }), ModelFailure::Server, "gone"),
        (json!({ "code": 429, "message": "slow down" }), ModelFailure::RateLimited, "slow down"),
        (
            json!({ "code": 400, "message": "Provider returned error", "metadata": { "raw": "{\"error\":{\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}", "provider_name": "Anthropic" } }),
            ModelFailure::TooLong,
            "prompt is too long",
        ),
    ] {
        let broken =
            json!({ "id": "gen-1", "error": error, "choices": [{ "index": 0, "delta": { "content": "" }, "finish_reason": "error" }] });
        let server = Server::playing([streamed(&[so_far.clone(), broken])]).await;
        let told = ask(&*model("openrouter", &server)).await.unwrap_err();
        assert_eq!((told.failure, told.partial.as_str()), (failure, "so far"), "{error}");
        assert!(told.words.contains(words), "{}", told.words);
    }
    // Without an error object the reason alone says it.
    let server = Server::playing([streamed(&[so_far, chunk(json!({}), Some("error"))])]).await;
    assert_eq!(ask(&*model("openrouter", &server)).await.unwrap_err().failure, ModelFailure::Cut);
}

#[tokio::test]
async fn deepseek_gets_its_thinking_back_with_its_calls_and_only_there() {
    let called = json!({ "tool_calls": [{ "index": 0, "id": "c1", "function": { "name": "ls", "arguments": "{}" } }] });
    let mut last = chunk(json!({ "content": null, "reasoning_content": null }), Some("tool_calls"));
    last["usage"] = json!({ "prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36 });
    let answer = [
        chunk(json!({ "role": "assistant", "content": null, "reasoning_content": "I must" }), None),
        chunk(json!({ "content": null, "reasoning_content": " look" }), None),
        chunk(called, None),
        last,
    ];
    let server = Server::playing([streamed(&answer), ok(), ok()]).await;
    let deepseek = model_of("deepseek", Api::OpenAi, &server.url, "deepseek-v4-pro");
    let reply = ask(&*deepseek).await.unwrap();
    assert_eq!((reply.parts.as_slice(), reply.finish), ([thought("I must look"), call("c1", "{}")].as_slice(), Finish::Calls));
    assert_eq!((reply.usage.input, reply.usage.cache_read), (36, 64));

    let silent = assistant(vec![call("c2", "{}")]);
    let plain = assistant(vec![thought("done"), ReplyPart::Text("there".into())]);
    let told = [user("hi"), assistant(reply.parts), result("c1", ""), silent, result("c2", ""), plain, user("and?")];
    let other = model_of("mine", Api::OpenAi, &server.url, "m1");
    for model in [&deepseek, &other] {
        model.reply(request(&**model, &tools(), &told), &Nobody).await.unwrap();
    }
    let thoughts = |body: &Value| -> Vec<Value> {
        let messages = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
        messages.map(|message| message.get("reasoning_content").cloned().unwrap_or_default()).collect()
    };
    // A message with calls must have the field, even when nothing was thought; a plain one must not need it.
    assert_eq!(thoughts(&bodies(&server)[1]), [json!("I must look"), json!(""), Value::Null]);
    assert_eq!(thoughts(&bodies(&server)[2]), [Value::Null, Value::Null, Value::Null]);
}

#[tokio::test]
async fn moonshot_counts_in_the_choice_and_wants_the_thinking_of_kimi_back() {
    let mut last = chunk(json!({}), Some("stop"));
    last["choices"][0]["usage"] = json!({ "prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13 });
    let server = Server::playing([streamed(&[chunk(json!({ "content": "ok" }), None), last]), ok()]).await;
    let kimi = model_of("moonshot", Api::OpenAi, &server.url, "kimi-k2.5");
    let reply = ask(&*kimi).await.unwrap();
    assert_eq!((reply.parts, reply.usage.tokens()), (said_ok(), 13));
    let told = [user("hi"), assistant(vec![thought("so"), call("c1", "{}")]), result("c1", "")];
    kimi.reply(request(&*kimi, &tools(), &told), &Nobody).await.unwrap();
    assert_eq!(bodies(&server)[1]["messages"][2]["reasoning_content"], "so");
}

#[tokio::test]
async fn groq_thinks_in_reasoning_and_counts_in_a_place_of_its_own() {
    let mut last = chunk(json!({}), Some("stop"));
    last["x_groq"] =
        json!({ "id": "req_1", "usage": { "prompt_tokens": 21, "completion_tokens": 4, "total_tokens": 25, "queue_time": 0.1 } });
    let mut first = chunk(json!({ "role": "assistant", "content": "" }), None);
    first["x_groq"] = json!({ "id": "req_1" });
    let answer = [first, chunk(json!({ "reasoning": "hm" }), None), chunk(json!({ "content": "ok" }), None), last];
    let too_much = json!({ "error": { "message": "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000", "type": "tokens", "code": "rate_limit_exceeded" } });
    let too_long = json!({ "error": { "message": "Please reduce the length of the messages or completion.", "type": "invalid_request_error", "code": "context_length_exceeded" } });
    let script = [streamed(&answer), document("413 Payload Too Large", &too_much), document("400 Bad Request", &too_long)];
    let server = Server::playing(script).await;
    let model = model("groq", &server);
    let reply = ask(&*model).await.unwrap();
    assert_eq!(
        (reply.parts.as_slice(), reply.usage.input, reply.usage.output),
        ([thought("hm"), ReplyPart::Text("ok".into())].as_slice(), 21, 4)
    );
    assert_eq!(ask(&*model).await.unwrap_err().failure, ModelFailure::RateLimited);
    assert_eq!(ask(&*model).await.unwrap_err().failure, ModelFailure::TooLong);
}

#[tokio::test]
async fn xai_calls_in_one_chunk_and_bills_in_ticks() {
    let called =
        json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function", "function": { "name": "ls", "arguments": "{\"p\":1}" } }] });
    let answer = [
        chunk(json!({ "role": "assistant", "content": "", "reasoning_content": "hm" }), None),
        chunk(called, None),
        chunk(json!({}), Some("tool_calls")),
        json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 165, "prompt_tokens_details": { "cached_tokens": 60 }, "cost_in_usd_ticks": 37_756_000 } }),
    ];
    let too_long = "This model's maximum prompt length is 131072 but the request contains 537812 tokens.";
    let server =
        Server::playing([streamed(&answer), document("400 Bad Request", &json!({ "code": "invalid-argument", "error": too_long }))]).await;
    let model = model("xai", &server);
    let reply = ask(&*model).await.unwrap();
    assert_eq!((reply.parts.as_slice(), reply.finish), ([thought("hm"), call("c1", "{\"p\":1}")].as_slice(), Finish::Calls));
    // The tokens of thinking are only in the total; the bill is what was billed.
    assert_eq!((reply.usage.input, reply.usage.cache_read, reply.usage.output, reply.usage.cost_usd), (40, 60, 65, 0.0037756));
    assert_eq!(ask(&*model).await.unwrap_err().failure, ModelFailure::TooLong);
}

#[tokio::test]
async fn mistral_gets_ids_of_nine_letters_and_a_word_between_a_tool_and_the_user() {
    let called = json!({ "tool_calls": [{ "id": "D681PevKs", "function": { "name": "ls", "arguments": "{}" }, "index": 0 }] });
    let mut last = chunk(called, Some("tool_calls"));
    last["usage"] = json!({ "prompt_tokens": 30, "completion_tokens": 6, "total_tokens": 36 });
    let server = Server::playing([streamed(&[chunk(json!({ "role": "assistant", "content": "" }), None), last]), ok()]).await;
    let model = model("mistral", &server);
    let reply = ask(&*model).await.unwrap();
    assert_eq!((reply.parts.as_slice(), reply.usage.tokens()), ([call("D681PevKs", "{}")].as_slice(), 36));
    // One call of its own, and one that another provider made before.
    let foreign = assistant(vec![ReplyPart::Text("look".into()), call("toolu_01A", "{}")]);
    let told = [user("hi"), foreign, result("toolu_01A", ""), assistant(reply.parts), result("D681PevKs", "and now?")];
    model.reply(request(&*model, &tools(), &told), &Nobody).await.unwrap();
    let sent = &bodies(&server)[1];
    let messages = sent["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "tool", "assistant", "user"]);
    let ids = |at: usize| (messages[at]["tool_calls"][0]["id"].as_str().unwrap(), messages[at + 1]["tool_call_id"].as_str().unwrap());
    assert_eq!(ids(4), ("D681PevKs", "D681PevKs"));
    let (made, answered) = ids(2);
    assert_eq!((made, made.len(), made.bytes().all(|byte| byte.is_ascii_alphanumeric())), (answered, 9, true));
    // It refuses every field that it does not know.
    assert!(sent.get("stream_options").is_none() && sent["max_tokens"] == 100, "{sent}");
}

#[tokio::test]
async fn azure_has_a_header_of_its_own_and_speaks_first_without_a_choice() {
    let answer = [
        json!({ "choices": [], "created": 0, "id": "", "model": "", "prompt_filter_results": [{ "prompt_index": 0, "content_filter_results": {} }] }),
        json!({ "choices": [{ "index": 0, "delta": { "content": "ok" }, "finish_reason": null, "content_filter_results": {} }] }),
        chunk(json!({}), Some("stop")),
        json!({ "choices": [], "usage": { "prompt_tokens": 3, "completion_tokens": 1 } }),
    ];
    let server = Server::playing([streamed(&answer)]).await;
    let url = format!("{}/openai/deployments/d1?api-version=2024-10-21", server.url);
    let model = model_of("azure", Api::OpenAi, &url, "d1");
    let reply = ask(&*model).await.unwrap();
    assert_eq!((reply.parts, reply.usage.tokens()), (said_ok(), 4));
    let head = &server.received()[0].head;
    assert!(head.starts_with("post /openai/deployments/d1/chat/completions?api-version=2024-10-21 http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\napi-key: {KEY}\r\n")) && !head.contains("authorization"), "{head}");
    assert_eq!(bodies(&server)[0]["max_completion_tokens"], 100);
}

#[tokio::test]
async fn azure_without_a_resource_says_what_to_set() {
    let known = posse_models::known_providers().iter().find(|known| known.name == "azure").unwrap();
    let model = model_of("azure", known.api, known.base_url, "d1");
    let error = ask(&*model).await.unwrap_err();
    assert_eq!(error.failure, ModelFailure::NeedsModel);
    assert_eq!(error.words, "no address for azure: set AZURE_RESOURCE_NAME, or AZURE_BASE_URL to the whole base URL");
}
