//! `posse rules judge`: what would become of a command or a path here, by the same way a call of the model takes.
//!
//! The tool looks, the kernel judges; nothing is run and nothing is changed. Flags of a run and answers given for one
//! session are not known here.

use posse_api::{Client as _, words};
use posse_config::{Config, PermissionMode, Places};
use posse_session::{AskedFor, Decision, Granted, Judgement, Rules, Scope, Touch, Verdict, judge};
use posse_tools::{Whereabouts, judge_path};
use serde_json::{Map, Value, json};

use crate::{
    args::{How, Listing, PathOp},
    asks, build,
    exit::{Exit, Failure},
    print::{safe, to_stdout},
    run::client_failure,
};

pub(super) async fn command(command: &str, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let found = look("bash", &json!({ "command": command }), &places, &config).await?;
    say(&found, Map::new(), format);
    Ok(Exit::Done)
}

pub(super) async fn path(path: &str, op: Option<PathOp>, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let (tool, input, op) = match op {
        Some(PathOp::Write) => ("write", json!({"filePath": path, "content": ""}), posse_tools::PathOp::Write),
        _ => ("read", json!({ "filePath": path }), posse_tools::PathOp::Read),
    };
    let from_here = if path.starts_with('~') { path.to_owned() } else { places.cwd.join(path).display().to_string() };
    let place = judge_path(&places.project, &from_here, op);
    let mut fields = Map::new();
    fields.insert("where".into(), place.verdict.to_string().into());
    fields.insert("real".into(), place.real.display().to_string().into());
    fields.insert("where_why".into(), place.why.clone().into());
    let config = build::configuration(&places, &How::default())?;
    let found = match look(tool, &input, &places, &config).await {
        // A protected file is for a person to allow; anything else that is refused no verdict can open.
        Ok(found) if place.verdict != Whereabouts::Refuse || found.touches.iter().any(Touch::needs_a_person) => found,
        Err(failure) if place.verdict != Whereabouts::Refuse => return Err(failure),
        _ => Found {
            decision: Decision { why: place.why, ..Decision::of(Verdict::Deny, None) },
            touches: Vec::new(),
            mode: config.permission_mode,
        },
    };
    say(&found, fields, format);
    Ok(Exit::Done)
}

struct Found {
    decision: Decision,
    touches: Vec<Touch>,
    mode: PermissionMode,
}

/// The verdict that a new session in this folder would come to.
async fn look(tool: &str, input: &Value, places: &Places, config: &Config) -> Result<Found, Failure> {
    let book = config.rulebook();
    let workspace = build::workspace(places)?;
    let tools = posse_tools::builtin();
    let known = tools.iter().find(|known| known.spec().name == tool);
    let look = known.map_or_else(|| Err(format!("there is no tool {tool}")), |known| known.look(input, &workspace));
    let look = look.map_err(Failure::usage)?;
    let ceiling: Vec<&Rules> = book.ceiling.iter().collect();
    let Judgement { decision, asked } = judge(tool, &look.touches, look.reader.as_ref(), &book.rules, &ceiling);
    let mode = config.permission_mode;
    let decision = if decision.verdict == Verdict::Ask { lifted(decision, &asked, mode, places).await? } else { decision };
    Ok(Found { decision, touches: look.touches, mode })
}

/// What was allowed for the whole project is not asked about, nor what the mode says yes to.
async fn lifted(decision: Decision, asked: &[AskedFor], mode: PermissionMode, places: &Places) -> Result<Decision, Failure> {
    let granting = match asks::client(places)? {
        Some(client) => client.granting().await.map_err(client_failure)?,
        None => Vec::new(),
    };
    let for_all = granting.iter().flat_map(|summary| &summary.granted).filter(|granted| granted.scope == Scope::Project);
    let for_all: Vec<&Granted> = for_all.collect();
    let covering = |asked: &AskedFor| for_all.iter().find(|granted| granted.grant.covers(asked));
    match asked.first().and_then(covering) {
        Some(granted) if asked.iter().all(|asked| covering(asked).is_some()) => Ok(Decision {
            verdict: Verdict::Allow,
            rule: Some(granted.grant.to_string()),
            origin: format!("the answer to {} (for the project)", granted.ask),
            ..decision
        }),
        _ if !asked.is_empty() && asked.iter().all(|asked| covering(asked).is_some() || answers(mode, &asked.touch)) => {
            let yes = format!("the permission mode {mode} says yes");
            let why = if decision.why.is_empty() { yes } else { format!("{yes}: {}", decision.why) };
            Ok(Decision { verdict: Verdict::Allow, why, ..decision })
        }
        _ => Ok(decision),
    }
}

/// Whether a mode says yes to this where a rule asks. Plan is rules, and they were judged already.
fn answers(mode: PermissionMode, touch: &Touch) -> bool {
    match mode {
        PermissionMode::Default | PermissionMode::Plan => false,
        PermissionMode::AcceptEdits => touch.key == "edit",
        PermissionMode::Bypass => !touch.needs_a_person(),
    }
}

fn say(found: &Found, mut more: Map<String, Value>, format: Listing) {
    let Found { decision, touches, mode } = found;
    let touches: Vec<String> = touches.iter().map(|touch| words::touch(Some(touch))).collect();
    let reason = words::reason(decision);
    if format == Listing::Json {
        let mut fields = Map::new();
        fields.insert("verdict".into(), words::verdict(decision.verdict).into());
        fields.insert("why".into(), reason.into());
        fields.insert("rule".into(), json!(decision.rule));
        fields.insert("origin".into(), decision.origin.clone().into());
        fields.insert("mode".into(), mode.to_string().into());
        fields.append(&mut more);
        fields.insert("touches".into(), json!(touches));
        to_stdout(&Value::Object(fields).to_string());
        return;
    }
    to_stdout(&format!("{}  {}", words::verdict(decision.verdict), safe(&reason)));
    if *mode != PermissionMode::Default {
        to_stdout(&format!("  mode {mode}"));
    }
    let text = |name: &str| more.get(name).and_then(Value::as_str);
    if let (Some(place), Some(real), Some(why)) = (text("where"), text("real"), text("where_why")) {
        to_stdout(&safe(&format!("  {place}: {real} ({why})")));
    }
    for touch in touches {
        to_stdout(&safe(&format!("  touches {touch}")));
    }
}
