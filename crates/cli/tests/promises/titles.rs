//! `posse sessions title`: a name for a session, given or found; a run itself never asks a model for one.

use crate::support::{Answer, Seen, World};

/// The last words of the user's side.
fn last_said(seen: &Seen) -> String {
    seen.user_texts().last().map(|text| (*text).to_owned()).unwrap_or_default()
}

#[test]
fn a_title_is_given_or_found_and_never_asked_for_by_a_run() {
    let world = World::new(|seen: &Seen| match last_said(seen).contains("Now name it") {
        true => Answer::text("\"Colours of the house\"\n"),
        false => Answer::text("blue"),
    });
    world.run(&["which colour has the house?"]).expect_code(0);
    assert_eq!(world.model.requests().len(), 1, "no call that the answer does not need");
    let listed = || world.posse(&["sessions", "list"]).expect_code(0).out;
    assert!(listed().contains("which colour has the house?"));
    let id = listed().split_whitespace().next().unwrap().to_owned();
    let done = world.posse(&["sessions", "title", &id]).expect_code(0);
    assert!(done.out.contains("Colours of the house") && !done.out.contains('"'), "{}", done.out);
    assert!(listed().contains("Colours of the house"), "{}", listed());
    world.posse(&["sessions", "title", &id, "my", "house"]).expect_code(0);
    assert!(listed().contains("my house") && world.model.requests().len() == 2);
    world.posse(&["sessions", "title", &id, " "]).expect_code(2);
    world.posse(&["sessions", "title", "ses_nobody"]).expect_code(2);
    // It goes on under its new name.
    world.run(&["-c", "and the door?"]).expect_code(0);
    assert!(listed().contains("my house"));
}
