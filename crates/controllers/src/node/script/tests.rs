use super::*;
use crate::pod::tests::pod;
use serde_json::{Value, json};

/// Runs of one pod whose container mounts emptyDirs at `/data` and `/more`, and a directory of its node at `/host`.
struct World {
    volumes: Volumes,
    prints: PrintRoom,
    begin: Instant,
    passed: Duration,
}

impl World {
    fn new() -> Self {
        Self {
            volumes: Volumes::default(),
            prints: PrintRoom::default(),
            begin: Instant::now(),
            passed: Duration::ZERO,
        }
    }

    fn run_on(&self, node: usize, uid: &str, container: Value) -> Option<Run> {
        self.run_with(&Effort::new(), node, uid, container)
    }

    fn run_with(&self, effort: &Effort, node: usize, uid: &str, mut container: Value) -> Option<Run> {
        container["volumeMounts"] = json!([
            {"name": "d", "mountPath": "/data"}, {"name": "e", "mountPath": "/more"}, {"name": "h", "mountPath": "/host"},
            {"name": "c", "mountPath": "/config"}]);
        let pod = pod(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": uid, "labels": {"index": "3"}},
            "spec": {"containers": [container], "volumes": [
                {"name": "d", "emptyDir": {}}, {"name": "e", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/tmp/x"}}, {"name": "c", "configMap": {"name": "m"}}]},
        }));
        let started = (self.begin + self.passed, "2026-01-01T00:00:00Z".parse().unwrap());
        let (volumes, prints) = (&self.volumes, &self.prints);
        let site = Site { pod: &pod, node, volumes, prints, effort, started, restarts: 0 };
        interpret(&pod.list("spec/containers")[0], &site)
    }

    fn sh(&self, script: &str) -> Option<Run> {
        self.run_on(0, "u", json!({"command": ["/bin/sh", "-c", script]}))
    }
}

/// The code and the milliseconds of the end, and what was printed.
type Outcome = (Option<(i32, u128)>, Vec<String>);

/// Returns how a script ends and what it prints, or `None` if the script is not understood.
fn outcome(run: Option<Run>) -> Option<Outcome> {
    let run = run?;
    let exit = run.exit.map(|(after, code)| (code, after.as_millis()));
    Some((exit, run.log.iter().map(|line| format!("{}ms {}", line.after.as_millis(), line.text)).collect()))
}

fn ends(script: &str) -> Option<(i32, u128)> {
    outcome(World::new().sh(script)).unwrap_or_else(|| panic!("not understood: {script}")).0
}

fn prints(script: &str) -> Vec<String> {
    let (_, lines) = outcome(World::new().sh(script)).unwrap_or_else(|| panic!("not understood: {script}"));
    lines.into_iter().map(|line| line.split_once("ms ").unwrap().1.to_owned()).collect()
}

#[test]
fn sequences_run_one_after_the_other() {
    assert_eq!(ends("exit 3"), Some((3, 0)));
    assert_eq!(ends("sleep 5; exit 3"), Some((3, 5000)));
    assert_eq!(ends("true && false"), Some((1, 0)));
    assert_eq!(ends("false && sleep 9 || sleep 0.5\nfalse || exit 7"), Some((7, 500)));
    assert_eq!(ends("! true"), Some((1, 0)));
    assert_eq!(ends("false; exit"), Some((1, 0)));
    assert_eq!(ends("set -e; false; sleep 1"), Some((1, 0)));
    assert_eq!(ends("set -e; if false; then :; fi; false || true; ! true; sleep 1m"), Some((0, 60_000)));
    assert_eq!(ends("exec sleep 2; exit 1"), Some((0, 2000)));
    assert_eq!(ends("sleep infinity"), None);
    assert_eq!(ends("exit 300"), Some((44, 0)));
}

#[test]
fn lines_are_printed_at_their_time() {
    let (exit, lines) = outcome(World::new().sh("echo one; sleep 2; echo -n two; echo ' three'")).unwrap();
    assert_eq!(exit, Some((0, 2000)));
    assert_eq!(lines, ["0ms one", "2000ms two three"]);
    assert_eq!(prints("echo \"a  b\" a  b 'c;d' \\; # rest"), ["a  b a b c;d ;"]);
    assert_eq!(prints("x='1  2'; echo $x \"$x\" ${y:-none} $?"), ["1 2 1  2 none 0"]);
    assert_eq!(prints("echo $(expr 7 % 4) $((2 * (3 + 4))) $(echo a; echo b)"), ["3 14 a b"]);
    assert_eq!(prints("echo gone > /dev/null; echo also 2>&1; echo to 2>/dev/null"), ["also", "to"]);
    assert_eq!(prints("for i in 1 2 3; do if [ $i = 2 ]; then continue; fi; echo $i; done"), ["1", "3"]);
    assert_eq!(prints("i=0; while [ $i -lt 3 ]; do echo $i; i=$((i + 1)); done"), ["0", "1", "2"]);
    assert_eq!(prints("f() { echo in $1; return 4; }\nf; echo $?").len(), 2);
    assert_eq!(
        prints("date; sleep 1d; date"),
        ["Thu Jan  1 00:00:00 UTC 2026", "Fri Jan  2 00:00:00 UTC 2026"]
    );
}

#[test]
fn loops_without_end_go_on_until_they_are_stopped() {
    assert_eq!(ends("while true; do sleep 1; done"), None);
    assert_eq!(ends("while :; do :; done"), None);
    assert_eq!(ends("until false; do echo x; done"), None);
    assert_eq!(
        ends("_term(){\nsleep 5\nexit 143\n}\ntrap _term SIGTERM\nwhile true; do sleep 1; done"),
        None
    );
    assert_eq!(ends("tail -f /dev/null"), None);
    let (_, lines) = outcome(World::new().sh("while true; do echo tick; sleep 10; done")).unwrap();
    assert!(lines.len() > 100 && lines[2] == "20000ms tick", "{}", lines.len());
}

#[test]
fn a_script_may_say_what_it_does_when_it_is_told_to_stop() {
    let stops = |script: &str| {
        let stops = World::new().sh(script).unwrap().stops;
        stops.map(|end| end.map(|(after, code)| (after.as_secs(), code)))
    };
    let forever = "while true; do sleep 1; done";
    assert_eq!(stops(forever), None);
    assert_eq!(
        stops(&format!("_term(){{\nsleep 5\nexit 143\n}}\ntrap _term SIGTERM\n{forever}")),
        Some(Some((5, 143)))
    );
    assert_eq!(stops(&format!("trap 'echo bye; exit 0' INT TERM; {forever}")), Some(Some((0, 0))));
    assert_eq!(stops(&format!("trap '' TERM; {forever}")), Some(None), "the signal is ignored");
    assert_eq!(stops(&format!("trap 'echo no' 15; {forever}")), Some(None), "the loop goes on");
    assert_eq!(stops(&format!("trap 'exit 1' TERM; trap - TERM; {forever}")), None);
    assert_eq!(stops(&format!("trap 'exit 1' INT; {forever}")), None);
    let world = World::new();
    world.sh(&format!("trap 'touch /data/stopped; exit 0' TERM; {forever}"));
    assert_eq!(outcome(world.sh("test -e /data/stopped")).unwrap().0, Some((1, 0)), "it has not stopped yet");
}

#[test]
fn files_in_volumes_outlive_a_run() {
    let world = World::new();
    let once = "if [[ -r /data/foo ]]\nthen\n  exit 0\nelse\n  touch /data/foo\n  exit 1\nfi";
    assert_eq!(
        [(); 3].map(|()| outcome(world.sh(once)).unwrap().0),
        [Some((1, 0)), Some((0, 0)), Some((0, 0))]
    );
    assert!(!world.sh(once).unwrap().repeats && world.sh("exit 1").unwrap().repeats);
    let own = "if [ -e /tmp/foo ]; then exit 0; fi; touch /tmp/foo; test -f /tmp/foo && exit 2";
    assert_eq!([(); 2].map(|()| outcome(world.sh(own)).unwrap().0), [Some((2, 0)), Some((2, 0))]);
    assert_eq!(
        outcome(world.sh("echo -n ab > /data/x; echo c >> /data/x; cat /data/x")).unwrap().1,
        ["0ms abc"]
    );
    assert_eq!(outcome(world.sh("rm /data/x && cat /data/x")).unwrap().0, Some((1, 0)));
    assert_eq!(outcome(world.sh("rm /data/x")).unwrap().0, Some((1, 0)));
    assert_eq!(outcome(world.sh("rm -rf /data/x; ! [ -s /data/x ]")).unwrap().0, Some((0, 0)));
}

#[test]
fn a_volume_is_as_wide_as_its_kind() {
    let world = World::new();
    let test = |node: usize, uid: &str, path: &str| {
        let script = format!("test -f {path} && exit 5; touch {path}; exit 6");
        outcome(world.run_on(node, uid, json!({"command": ["sh", "-c", script]}))).unwrap().0.unwrap().0
    };
    assert_eq!([test(0, "a", "/data/f"), test(0, "b", "/data/f"), test(0, "a", "/data/f")], [6, 6, 5]);
    assert_eq!([test(0, "a", "/host/f"), test(0, "b", "/host/f"), test(1, "b", "/host/f")], [6, 5, 6]);
    world.volumes.forget("a");
    assert_eq!([test(0, "a", "/data/f"), test(0, "b", "/data/f"), test(0, "b", "/host/f")], [6, 5, 5]);
}

#[test]
fn what_is_written_later_is_not_there_yet() {
    let mut world = World::new();
    assert!(world.sh("sleep 10; touch /data/late; rm -f /data/gone").is_some());
    let there = |world: &World| outcome(world.sh("test -f /data/late")).unwrap().0.unwrap().0 == 0;
    assert!(!there(&world));
    assert_eq!(outcome(world.sh("until [ -f /data/late ]; do sleep 4; done")).unwrap().0, Some((0, 12_000)));
    world.passed = Duration::from_secs(11);
    assert!(there(&world));
}

#[test]
fn the_environment_is_known_as_far_as_the_pod_tells() {
    let world = World::new();
    let run = |env: Value, script: &str| {
        let more = json!({"command": ["sh", "-c", script], "env": env});
        outcome(world.run_on(0, "u", more)).map(|(exit, lines)| (exit.map(|(code, _)| code), lines))
    };
    let index = json!([{"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['index']"}}},
        {"name": "TWICE", "value": "$(INDEX)$(INDEX)"}]);
    let odd = "if [ $(expr ${INDEX} % 2) -ne 0 ]; then exit 1; else exit 0; fi";
    assert_eq!(run(index.clone(), odd), Some((Some(1), vec![])));
    assert_eq!(
        run(index.clone(), "echo $(TWICE) $INDEX $$NAME"),
        Some((Some(0), vec!["0ms 33 3".to_owned()]))
    );
    let secret = json!([{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    assert_eq!(run(secret.clone(), "echo $S"), None, "a node does not read Secrets");
    assert_eq!(run(secret, "exit 4"), Some((Some(4), vec![])));
}

#[test]
fn programs_run_without_a_shell() {
    let world = World::new();
    let run = |words: Value| outcome(world.run_on(0, "u", words));
    assert_eq!(run(json!({"command": ["/bin/echo", "a;", "$b"]})).unwrap().1, ["0ms a; $b"]);
    assert_eq!(run(json!({"command": ["sleep"], "args": ["1", "2"]})).unwrap().0, Some((0, 3000)));
    assert_eq!(run(json!({"command": ["/bin/false"]})).unwrap().0, Some((1, 0)));
    assert_eq!(run(json!({"args": ["sleep", "1"]})), None, "the image has a program of its own");
    assert_eq!(run(json!({"command": ["sh", "-ec"], "args": ["false; exit 0"]})).unwrap().0, Some((1, 0)));
    assert_eq!(run(json!({"command": ["sh", "/run.sh"]})), None);
}

#[test]
fn what_is_not_understood_is_left_alone() {
    for script in [
        "nginx",
        "sleep 5; nginx",
        "cat /etc/passwd",
        "cat /config/x",
        "echo a | grep a",
        "sleep 5 & exit 1",
        "echo `date`",
        "ls *",
        "if true; then",
        "echo 'a",
        "echo \"a",
        "(exit 1)",
        "case a in a) ;; esac",
        "$(",
        "${a!b}",
        "$((1",
        "fi",
        "while true; do",
        "echo ../x > ../y",
        "f() { f; }; f",
        "&&",
        "; ;; ;",
        "> ",
        "echo a > /config/x",
        "seq 1 99999999",
    ] {
        assert_eq!(outcome(World::new().sh(script)), None, "{script}");
    }
    // An end before the command that is not understood counts.
    assert_eq!(ends("exit 1; nginx"), Some((1, 0)));
    assert_eq!(ends("true || nginx"), Some((0, 0)));
}

#[test]
fn deep_and_long_scripts_do_no_harm() {
    let deep = format!("{}:{}", "if true; then ".repeat(5_000), "; fi".repeat(5_000));
    assert_eq!(World::new().sh(&deep), None);
    assert_eq!(World::new().sh(&format!("echo {}{}", "$(".repeat(9_000), ")".repeat(9_000))), None);
    assert_eq!(World::new().sh(&"! ".repeat(100_000)), None);
    assert_eq!(World::new().sh(&"{ ".repeat(100_000)), None);
    assert!(World::new().sh(&"echo x;".repeat(100_000)).is_some_and(|run| run.exit.is_none()));
    assert!(World::new().sh("x=a; while true; do x=$x$x; done").is_none_or(|run| run.exit.is_none()));
}

/// A container of a hundred thousand words overflowed the stack of the process.
#[test]
fn negations_are_counted() {
    let negated = |count: usize| {
        let words = json!({"command": ["test"], "args": vec!["!"; count]});
        outcome(World::new().run_on(0, "u", words)).unwrap().0
    };
    assert_eq!([negated(200_000), negated(200_001)], [Some((1, 0)), Some((0, 0))]);
    assert_eq!(ends("[ ! ! -z '' ] && ! [ ! a = a ]"), Some((0, 0)));
}

/// Calls and brackets are bounded each by themselves, and must fit into the stack together.
#[test]
fn calls_in_deep_brackets_fit_into_the_stack() {
    let body = format!("{}f{}", "if true; then ".repeat(17), "; fi".repeat(17));
    let in_outputs = format!("{}f{}", "echo $(".repeat(17), ")".repeat(17));
    for body in [body, in_outputs] {
        assert_eq!(World::new().sh(&format!("f() {{ {body}; }}; f")), None, "{body}");
        let ended = format!("i=0; f() {{ i=$((i + 1)); [ $i = 19 ] && exit 7; {body}; }}; f");
        assert!(World::new().sh(&ended).is_some(), "{ended}");
    }
}

/// Each of these took gigabytes, or minutes.
#[test]
fn what_a_script_costs_is_bounded() {
    let (long, words) = ("a".repeat(60_000), "a ".repeat(30_000));
    let each = "$x ".repeat(100_000);
    let assignments: String = (0..100_000).map(|name| format!("v{name}=$x ")).collect();
    for script in [
        format!("x={long}; : {each}"),
        format!("x={long}; : \"{each}\""),
        format!("x='{words}'; for i in {each}; do :; done"),
        format!("x={long}; {assignments}"),
        format!("x={long}; while :; do export v$RANDOM=$x; done"),
        format!("echo {long} > /tmp/f; touch {}", "/tmp/f ".repeat(100_000)),
        format!("f() {{ : {words}{words}{words}; }}; while :; do f; done"),
        format!("while :; do : {words}{words}{words}; done"),
        format!("x=0{}; while :; do y=$((0{})); done", "0".repeat(60_000), "+x".repeat(100_000)),
    ] {
        let run = World::new().sh(&script);
        assert!(run.is_none_or(|run| run.exit.is_none()), "{}", &script[script.len() - 50..]);
    }
}

/// A script with arguments counted as not understood, and functions saw none of theirs.
#[test]
fn scripts_and_functions_have_arguments() {
    let run = |words: &[&str]| outcome(World::new().run_on(0, "u", json!({"command": words})));
    let printed = |words: &[&str]| run(words).unwrap().1;
    assert_eq!(run(&["sh", "-c", "sleep 5", "/crash/missing"]), Some((Some((0, 5000)), vec![])));
    assert_eq!(printed(&["sh", "-c", "echo $0 $1 $2 $#", "a", "b", "c"]), ["0ms a b c 2"]);
    assert_eq!(printed(&["sh", "-c", "echo $0 $#$1 $@"]), ["0ms sh 0"]);
    let nested = "f() { echo $0 $1 $#; }; g() { f in; echo $1; }; g out; echo $1";
    assert_eq!(printed(&["sh", "-c", nested, "x", "y"]), ["0ms x in 1", "0ms out", "0ms y"]);
    assert_eq!(run(&["sh", "-c", "echo $@", "a", "b"]), None);
}

/// A pod of thousands of containers, each within the bounds of one, took minutes and gigabytes.
#[test]
fn what_the_containers_of_a_pod_cost_is_bounded_together() {
    let world = World::new();
    let effort = Effort::new();
    let run =
        |script: &str| world.run_with(&effort, 0, "u", json!({"command": ["sh", "-c", script]})).unwrap();
    let prints = "while :; do echo 1234567890; done";
    let logs: Vec<_> = (0..3_000).map(|_| run(prints).log).collect();
    let bytes: usize = logs.iter().flat_map(|log| log.iter()).map(|line| line.text.len()).sum();
    assert!((1 << 18..16 << 20).contains(&bytes), "{bytes} bytes");
    assert_eq!(effort.left(), 0);
    assert_eq!(run("exit 1").exit, None, "nothing is computed any more");
    assert_eq!(World::new().sh("exit 1").unwrap().exit.map(|(_, code)| code), Some(1));
    // The environment counts, too.
    let effort = Effort::new();
    let long = json!({"command": ["true"], "env": [{"name": "A", "value": "x".repeat(1 << 20)}]});
    let ends = |run: Option<Run>| run.is_some_and(|run| run.exit.is_some());
    // What is too long for a process has cost something, too.
    let too_long = json!({"command": ["true"], "env": [
        {"name": "A", "value": "x".repeat(1 << 20)}, {"name": "B", "value": "$(A)$(A)"}]});
    let wasted = Effort::new();
    let refused = (0..100).take_while(|_| world.run_with(&wasted, 0, "u", too_long.clone()).is_none());
    assert!(refused.count() < 10, "{} are left", wasted.left());
    assert_eq!((0..100).take_while(|_| ends(world.run_with(&effort, 0, "u", long.clone()))).count(), 15);
}

/// Each pod may have a megabyte of files and of lines, and there may be thousands of pods.
#[test]
fn volumes_and_logs_have_a_bound_for_all_pods_together() {
    let world = World::new();
    let fill = "x=1234567890; for i in 1 2 3 4; do x=$x$x$x$x$x$x; done; for i in $(seq 70); do echo $x > /data/$i; done";
    let fills = |uid: &str| world.run_on(0, uid, json!({"command": ["sh", "-c", fill]})).is_some();
    let filled = (0..500).take_while(|at| fills(&at.to_string())).count();
    assert!((130..200).contains(&filled), "{filled} pods");
    world.volumes.forget("0");
    assert!(fills("a") && !fills("b"), "the files of a pod that is gone leave their room");
    let print =
        "x=1234567890; for i in 1 2 3 4; do x=$x$x$x$x$x$x; done; for i in $(seq 70); do echo $x; done";
    let mut runs: Vec<Run> = (0..200).map(|_| world.sh(print).unwrap()).collect();
    let with_lines = runs.iter().filter(|run| run.log.len() == 70).count();
    assert!((130..200).contains(&with_lines), "{with_lines} runs have lines");
    assert!(runs.iter().all(|run| run.exit.is_some()), "a run without its lines ends as before");
    runs.clear();
    assert_eq!(world.sh(print).unwrap().log.len(), 70);
}

/// Forty variables, each twice the one before, took all memory.
#[test]
fn the_environment_has_a_bound() {
    let world = World::new();
    let run = |env: Vec<Value>, word: String| {
        let container = json!({"command": ["echo", word], "env": env});
        outcome(world.run_on(0, "u", container)).map(|(_, lines)| lines[0].len())
    };
    let doubled = |times: usize| -> Vec<Value> {
        let twice = |at: usize| json!({"name": format!("V{}", at + 1), "value": format!("$(V{at})$(V{at})")});
        [json!({"name": "V0", "value": "x"})].into_iter().chain((0..times).map(twice)).collect()
    };
    assert_eq!(run(doubled(10), "$(V10)".to_owned()), Some("0ms ".len() + 1024));
    assert_eq!(run(doubled(40), "a".to_owned()), None);
    assert_eq!(run(doubled(16), "$(V16)".repeat(1000)), None);
    let open = "$(".repeat(400_000);
    assert_eq!(run(doubled(1), open.clone()), Some("0ms ".len() + open.len()));
    assert_eq!(
        references("a$$b$(V)$(W)$(V", &[("V".to_owned(), "1".to_owned())].into(), &mut 99).unwrap(),
        "a$b1$(W)$(V"
    );
}

#[test]
fn the_volumes_of_a_pod_have_a_bound_together() {
    let world = World::new();
    let fill = |folder: &str, from: usize| {
        let is_written = |at: &usize| {
            let script = format!(
                "i=0; x=1; while [ $i -lt 7 ]; do x=$x$x$x; i=$((i + 1)); done; echo $x > {folder}/{at}"
            );
            world.sh(&script).is_some()
        };
        (from..from + 2_000).take_while(is_written).count()
    };
    let first = fill("/data", 0);
    assert!((300..500).contains(&first), "{first} files of 2188 bytes");
    assert_eq!(fill("/more", 0), 0);
    assert!(fill("/host", 0) > 1000, "a directory of the node is not the pod's");
    assert!(world.sh("rm /data/0 /data/1").is_some());
    assert_eq!(fill("/more", 0), 2, "a removed file leaves its room");
    // Files without content take room as well.
    let world = World::new();
    let touched = (0..100).take_while(|round| {
        let names: String = (0..500).map(|at| format!("/data/{round}.{at} ")).collect();
        world.sh(&format!("touch {names}")).is_some()
    });
    assert!((4..20).contains(&touched.count()));
}

#[test]
fn a_termination_message_has_kubelets_length() {
    let script =
        "i=0; x=1; while [ $i -lt 9 ]; do x=$x$x$x; i=$((i + 1)); done; echo -n ä$x > /dev/termination-log";
    let message = World::new().sh(script).unwrap().message.unwrap();
    assert_eq!((message.len(), message.starts_with('1')), (4096, true));
    assert_eq!((end_of("aä", 2), end_of("aä", 1), end_of("a", 9)), ("ä", "", "a"));
}

#[test]
fn a_termination_message_is_what_is_in_its_file_or_at_the_end_of_the_log() {
    let world = World::new();
    let message = |container: Value| world.run_on(0, "u", container).unwrap().message;
    let writes =
        |path: &str| json!({"command": ["sh", "-c", format!("echo x; echo -n DONE > {path}; exit 1")]});
    assert_eq!(message(writes("/dev/termination-log")).as_deref(), Some("DONE"));
    assert_eq!(message(writes("/tmp/other")), None);
    let mut own = writes("/tmp/other");
    own["terminationMessagePath"] = json!("/tmp/other");
    assert_eq!(message(own).as_deref(), Some("DONE"));
    let mut falls_back = writes("/tmp/other");
    falls_back["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    assert_eq!(message(falls_back).as_deref(), Some("x\n"));
    let succeeds = json!({"command": ["echo", "x"], "terminationMessagePolicy": "FallbackToLogsOnError"});
    assert_eq!(message(succeeds), None);
}
