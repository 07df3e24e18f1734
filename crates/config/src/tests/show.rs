//! What `config show` prints: every value in force with its origin, and no secret.

use crate::testing::World;

#[test]
fn every_value_is_shown_with_its_origin_and_no_secret() {
    let world = World::with_user(
        r#"{
"model": "mock/m1",
"provider": {"mock": {"api": "anthropic", "baseURL": "https://me:pw@host/x?y=1", "api_key": "key-123", "headers": {"X": "hush"}, "models": {"m1": {"context": 5}}}},
"permission": {"edit": "ask"},
"limits": {"wall": 90},
"instructions": ["a.md"],
"mcp": {"x": {"url": "https://a:b@c", "env": {"A": "s3cret"}, "apiKey": "s3cret", "args": ["fine"]}}}"#,
    )
    .file("proj/posse.json", r#"{"instructions": ["b.md"]}"#);
    let rows: Vec<String> =
        world.load().unwrap().show().iter().map(|row| world.near(&format!("{} = {} ({})", row.key, row.value, row.origin))).collect();
    let expected = [
        "model = mock/m1 (home/posse/posse.json:2)",
        "provider.mock.api = anthropic (home/posse/posse.json:3)",
        "provider.mock.base_url = https://***@host/x?*** (home/posse/posse.json:3)",
        "provider.mock.api_key = *** (home/posse/posse.json:3)",
        "provider.mock.headers.X = *** (home/posse/posse.json:3)",
        "provider.mock.models.m1.context = 5 (home/posse/posse.json:3)",
        "permission.*.* = allow (built-in)",
        "permission.doom_loop.* = ask (built-in)",
        "permission.external_directory.* = ask (built-in)",
        "permission.private_address.* = ask (built-in)",
        "permission.task_merge.* = ask (built-in)",
        "permission.read.* = allow (built-in)",
        "permission.read.*.env = ask (built-in)",
        "permission.read.*.env.* = ask (built-in)",
        "permission.read..env* = ask (built-in)",
        "permission.read.*/.env* = ask (built-in)",
        "permission.read.*.env.example = allow (built-in)",
        "permission.read.*.env.sample = allow (built-in)",
        "permission.read.*.env.template = allow (built-in)",
        "permission.edit.*.env = ask (built-in)",
        "permission.edit.*.env.* = ask (built-in)",
        "permission.edit..env* = ask (built-in)",
        "permission.edit.*/.env* = ask (built-in)",
        "permission.edit.*.env.example = allow (built-in)",
        "permission.edit.*.env.sample = allow (built-in)",
        "permission.edit.*.env.template = allow (built-in)",
        "permission.edit.* = ask (home/posse/posse.json:4)",
        "limits.wall = 1m30s (home/posse/posse.json:5)",
        "limits.depth = 3 (built-in)",
        "limits.children = 200 (built-in)",
        "limits.tree = 2000 (built-in)",
        "limits.stream_idle = 5m (built-in)",
        "limits.step = 15m (built-in)",
        "limits.idle = 10m (built-in)",
        "concurrency.default = 16 (built-in)",
        "background = true (built-in)",
        "instructions[0] = a.md (home/posse/posse.json:6)",
        "instructions[1] = b.md (posse.json:1)",
        "compat.opencode = true (built-in)",
        "compat.claude = true (built-in)",
        r#"mcp = {"x":{"url":"https://***@c","env":{"A":"***"},"apiKey":"***","args":["fine"]}} (home/posse/posse.json:7)"#,
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_missing_key_is_shown_as_missing() {
    let world = World::with_user(r#"{"provider": {"p": {"api_key": "{env:NO_SUCH}"}}}"#);
    let row = world.load().unwrap().show().into_iter().find(|row| row.key == "provider.p.api_key").unwrap();
    assert!(row.value.starts_with("(missing: ") && row.value.contains("NO_SUCH"), "{}", row.value);
}
