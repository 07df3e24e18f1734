//! Fold tables of what a user typed: commands, agents that are run directly, leave for one turn, and limits of one agent.
//!
//! The language is explained in `common/play.rs`.

mod common;

use common::play::Play;
use posse_session::{Command, Event, Kind};

/// Words as they were typed are looked at before they are due; what they need are calls like any other.
#[test]
fn typed_words_are_expanded_before_they_are_due() {
    let mut play = Play::of("say typed");
    assert_eq!(play.state(), "owed: expand e1 | queue: e1 | round 1 open");
    play.run("expand e1 needs read ask");
    assert_eq!(play.state(), "owed: run c1 | calls: c1 ready, c2 asked | queue: e1 | round 1 open");
    play.run("start; finish ok; yes; start; finish ok");
    assert_eq!(play.state(), "owed: expand e1 | queue: e1 | round 1 open", "and then it is looked at again, with the results");
    play.run("expand e1 words");
    assert_eq!(play.state(), "owed: model 0 | queue: e1 | round 1 open");
    play.run("step; reply; conclude");
    assert_eq!(play.state(), "settled | round 1 completed");
    // What came later does not overtake words that are still looked at; what is more urgent does.
    let mut play = Play::of("say typed; say");
    assert_eq!(play.state(), "owed: expand e1 | queue: e1, e2 | round 1 open");
    play.run("expand e1 words; step");
    assert_eq!(play.last_facts(), "step 0 [e1]");
    play.run("reply; step; reply; conclude");
    assert_eq!(play.state(), "settled | round 1 completed");
    assert_eq!(Play::of("say typed; say now").state(), "owed: expand e1, model 0 | queue: e1, e2 | round 1 open");
    // Inside a turn nobody waits for words that are still looked at.
    let mut play = Play::of("say; step; reply +touch; say typed; say; start; finish ok; step");
    assert_eq!(play.last_facts(), "step 1 [e3]");
    play.run("reply");
    assert_eq!(play.state(), "owed: expand e2 | queue: e2 | round 1 open");
}

#[test]
fn an_interrupt_keeps_typed_words_and_a_resume_looks_at_them_again() {
    let mut play = Play::of("say typed; expand e1 needs touch; start; esc; finish cancelled; conclude");
    assert_eq!(play.state(), "settled | queue: e1 | held: esc | round 1 stopped");
    play.run("resume");
    assert_eq!(play.state(), "owed: expand e1 | queue: e1 | round 2 open");
    // A report that nobody waits for is nothing.
    let mut play = Play::of("say typed; expand e1 words; expand e1 sub");
    assert_eq!(play.last_facts(), "");
    play.run("step");
    assert_eq!(play.state(), "owed: model 0* | round 1 open");
}

#[test]
fn agents_that_the_user_ran_are_called_one_after_the_other_before_the_model() {
    let mut play = Play::of("say typed; expand e1 words sub sub");
    assert_eq!(play.state(), "owed: subtask 0 | queue: e1 | round 1 open");
    play.run("subtask");
    assert_eq!(play.state(), "owed: run c1 | calls: c1 ready | round 1 open", "nobody is asked");
    play.run("start; spawn t1; ended t1");
    assert_eq!(play.state(), "owed: subtask 1 | round 1 open");
    play.run("subtask; start; finish fail");
    assert_eq!(play.state(), "owed: model 2 | round 1 open", "one that fails is told like one that does not");
    play.run("step");
    let Some(Event::StepStarted { notes, .. }) = play.facts.first() else { panic!("{:?}", play.facts) };
    assert_eq!(notes[..], [posse_session::Part::text("Summarize the task tool output above and continue with your task.")]);
    play.run("reply; conclude");
    assert_eq!((play.state().as_str(), play.session.round().steps), ("settled | round 1 completed", 1));
    // A second call of the same is nothing: it is running.
    let mut play = Play::of("say typed; expand e1 sub; subtask; subtask");
    assert_eq!(play.last_facts(), "");
    play.run("esc");
    assert_eq!(play.state(), "owed: conclude 1 | held: esc | round 1 open");
}

/// CC-205, CC-206.
#[test]
fn a_direct_answer_is_the_answer() {
    let mut play = Play::of("say typed; expand e1 direct; subtask; start; spawn t1; ended t1");
    assert_eq!(play.state(), "owed: conclude 1 | round 1 open");
    assert_eq!(play.session.last_reply(), Some(play.session.head()));
    // One that was stopped has no answer: the model says what became of it.
    play = Play::of("say typed; expand e1 direct; subtask; start; spawn t1; ended t1 stopped");
    assert_eq!(play.state(), "owed: model 1 | round 1 open");
}

#[test]
fn what_typed_words_allow_holds_for_their_turn_and_lifts_no_deny() {
    let mut play = Play::of("say typed; expand e1 words allows=ask allows=deny by=plan; step; reply +ask=x +deny=y");
    assert_eq!(play.state(), "owed: run c1 | calls: c1 ready | round 1 open");
    assert_eq!(play.session.next_turn().agent.as_deref(), Some("plan"));
    play.run("start; finish ok; step; reply; say; step; reply +ask=x");
    assert_eq!(play.state(), "calls: c3 asked | round 1 open", "the next turn asks again");
    assert_eq!(play.session.next_turn().agent, None);
}

/// choices.md: at its own limit an agent sums up once, and whoever delegated to it may go on with it; a user's stop stands.
#[test]
fn whoever_delegated_may_go_on_except_after_a_users_stop() {
    for (script, goes_on) in [
        ("say; step closing; reply; conclude", true),
        ("say; step; fail auth; conclude", true),
        ("say; step; stop model; conclude", true),
        ("say; step; stop user; conclude", false),
    ] {
        let mut play = Play::of(script);
        play.run("say prompt");
        assert_eq!(play.session.hold().is_none(), goes_on, "{script}: {}", play.state());
    }
}

#[test]
fn a_sessions_own_step_limit_counts_its_rounds_model_calls() {
    let mut created = common::created(Kind::Root, "ses_0", None, Vec::new());
    if let Event::Created { recipe, .. } = &mut created {
        recipe.steps_max = Some(2);
    }
    let mut play = Play::empty();
    play.decide(Command::Create(Box::new(created)));
    let mut at_limit = Vec::new();
    for script in [
        "say; step; reply +touch=1",
        "start; finish ok; step; reply +touch=2",
        "start; finish ok; step closing; reply; conclude",
        "say; step",
    ] {
        play.run(script);
        at_limit.push(play.session.is_at_step_limit());
    }
    assert_eq!(at_limit, [false, true, true, false], "the next round counts anew");
}
