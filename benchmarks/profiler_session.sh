#!/usr/bin/env bash
# Captures and what they cost, on a machine with a GPU and nsys: results go to the folder given.
# usage: benchmarks/profiler_session.sh OUT [PART ...]
# parts, and the order without any: see below; kernels:K, beside:K and kinds:K for K kernels a step.  ROUNDS=12 makes that
# many rounds of each table of `fdprof overhead`, LIMIT=200 gives it so many seconds, SETS=4 takes fresh processes of `beside` as often.
set -u
out=$1
shift
rounds=${ROUNDS:-6}
parts=${*:-tests markers beside:2 beside:20 beside:100 overhead kernels:2 kernels:20 kernels:100 modes scenarios kinds:100 others graph diagnosis}
mkdir -p "$out"
export PYTHONUNBUFFERED=1
fdprof="python3 -m fdprof"
tight="--mode overlap --device-us 200 --schedule-us 0 --save-output-us 0 --steps 500 --backend paddle"
loop="--device-us 500 --schedule-us 120 --save-output-us 80 --kernels 4 --steps 40 --warmup 5"

# overhead NAME OPTIONS...: one table of what profilers cost, of the rounds that LIMIT seconds allow.
overhead() {
    local name=$1
    shift
    timeout -s INT -k 20 "${LIMIT:-400}" $fdprof overhead stop_flag $tight "$@" --runs /tmp/overhead -o "$out/overhead_$name.json" --force \
        2>"$out/overhead_$name.log" | tee "$out/overhead_$name.txt"
}

# capture SCENARIO MODE: by both ways, with the kernels of a bare run.
capture() {
    local bare=/tmp/bare/$1_$2
    rm -rf "$bare"
    timeout 60 $fdprof run "$1" --mode "$2" $loop --backend paddle --runs "$bare" >/tmp/capture.txt 2>/tmp/capture.log ||
        { echo "$1 $2 bare: exit code $?"; tail -5 /tmp/capture.log; return; }
    for tool in nsys fdprof; do
        timeout 120 $fdprof capture "$1" --mode "$2" --with $tool $loop --work-of "$bare"/* --runs "/tmp/captures/$tool" \
            -o "$out/captures/${1}_${2}_$tool.json" --force >/tmp/capture.txt 2>/tmp/capture.log ||
            { echo "$1 $2 $tool: exit code $?"; tail -5 /tmp/capture.log; }
    done
}

# agreement: of the captures made so far.
agreement() {
    python3 benchmarks/capture_agreement.py "$out/captures" -o "$out/capture_agreement.json" |
        tee "$out/capture_agreement.txt"
    tar czf "$out/captures.tgz" -C /tmp captures
}

# kinds KERNELS: what each kind of record costs, in one process: some two minutes.
kinds() {
    local kernels=$1 rc
    local to=$out/collector_cost_$1
    timeout -s INT -k 20 220 python3 benchmarks/collector_cost.py --kernels "$kernels" --limit-s 110 -o "$to.json" \
        2>"$to.log" | tee "$to.txt"
    rc=${PIPESTATUS[0]}
    tail -5 "$to.log"
    # Where CUPTI took the process along: what its finished rounds say, and without any the plainer conditions alone.
    if [ "$rc" -ge 128 ] && [ -s "$to.json" ]; then
        echo "collector_cost ended with exit code $rc"
        python3 benchmarks/collector_cost.py --again "$to.json" | tee "$to.txt"
    elif [ "$rc" -ge 128 ]; then
        echo "collector_cost ended with exit code $rc, once more with fewer conditions"
        timeout -s INT -k 20 220 python3 benchmarks/collector_cost.py --kernels "$kernels" --limit-s 80 \
            --with nothing,runtime,device,device+runtime,+waits,+driver,all -o "$to.json" \
            2>>"$to.log" | tee "$to.txt"
    fi
}

# beside KERNELS: our collector and nsys, three processes each beside three bare ones, in turns of a block: some 80 s.
beside() {
    local to=$out/collector_beside_nsys_$1
    timeout -s INT -k 20 $((400 * ${SETS:-1})) python3 benchmarks/collector_beside_nsys.py --kernels "$1" --with fdprof,nsys --each 3 --sets "${SETS:-1}" \
        --limit-s 40 -o "$to.json" 2>"$to.log" | tee "$to.txt"
    tail -5 "$to.log"
}

for part in $parts; do
    echo "== $part"
    case $part in
    tests) timeout 400 python3 -m pytest -q -m gpu -p no:cacheprovider tests 2>&1 | tail -60 | tee "$out/gpu_tests.txt" ;;
    markers) timeout 60 python3 benchmarks/marker_cost.py -o "$out/marker_cost.json" | tee "$out/marker_cost.txt" ;;
    overhead) overhead nvtx --rounds $rounds --with nvtx,fdprof,nsys-graph ;;
    kernels:*)
        kernels=${part#kernels:}
        overhead $kernels --rounds $rounds --kernels $kernels --with fdprof,nsys-graph
        ;;
    others) overhead others --rounds 1 --with torch,paddle ;;
    diagnosis)
        timeout 200 $fdprof capture stop_flag --mode sync --with nsys --diagnose $loop --runs /tmp/diagnosis \
            >/tmp/diagnosis.txt 2>&1 || tail -5 /tmp/diagnosis.txt
        cat /tmp/diagnosis/*/diagnosis.txt | tee "$out/diagnosis.txt"
        ;;
    kinds:*) kinds "${part#*:}" ;;
    beside:*) beside "${part#*:}" ;;
    graph) overhead graph --rounds 1 --launch graph --with fdprof,nsys-graph,nsys-node ;;
    modes)
        mkdir -p "$out/captures"
        for mode in sync async sync-pinned overlap overlap-copy-stream; do
            capture stop_flag $mode
        done
        agreement
        ;;
    scenarios)
        mkdir -p "$out/captures"
        for scenario in token_count logprobs speculative hidden_sync insert_tasks; do
            capture $scenario sync
            capture $scenario async
        done
        agreement
        ;;
    *) echo "no such part: $part" >&2 ;;
    esac
done
ls -l "$out"
