#!/usr/bin/env bash
# Captures and what they cost, on a machine with a GPU and nsys: results go to the folder given.
# usage: benchmarks/profiler_session.sh OUT [PART ...]      parts: tests markers overhead kernels agreement scenarios diagnosis
set -u
out=$1
shift
parts=${*:-tests markers overhead kernels agreement scenarios diagnosis}
mkdir -p "$out"
export PYTHONUNBUFFERED=1
fdprof="python3 -m fdprof"
tight="--device-us 200 --schedule-us 0 --save-output-us 0 --steps 500"
loop="--device-us 500 --schedule-us 120 --save-output-us 80 --kernels 4 --steps 40 --warmup 5"
for part in $parts; do
    echo "== $part"
    case $part in
    tests) timeout 400 python3 -m pytest -q -m gpu -p no:cacheprovider tests 2>&1 | tail -60 | tee "$out/gpu_tests.txt" ;;
    markers) timeout 60 python3 benchmarks/marker_cost.py -o "$out/marker_cost.json" | tee "$out/marker_cost.txt" ;;
    overhead)
        timeout 550 $fdprof overhead stop_flag --mode overlap $tight --backend paddle --rounds 6 --runs /tmp/overhead \
            -o "$out/overhead_20.json" --force 2>"$out/overhead_20.log" | tee "$out/overhead_20.txt"
        ;;
    kernels)
        for kernels in 2 100; do
            timeout 300 $fdprof overhead stop_flag --mode overlap $tight --backend paddle --kernels $kernels --rounds 6 \
                --with bare,fdprof,nsys-graph --runs /tmp/overhead -o "$out/overhead_$kernels.json" --force \
                2>"$out/overhead_$kernels.log" | tee "$out/overhead_$kernels.txt"
        done
        ;;
    agreement)
        timeout 500 python3 benchmarks/capture_agreement.py -o "$out/capture_agreement.json" |
            tee "$out/capture_agreement.txt"
        ;;
    scenarios)
        for scenario in stop_flag token_count logprobs speculative hidden_sync insert_tasks; do
            for mode in sync async; do
                for tool in nsys fdprof; do
                    timeout 120 $fdprof capture $scenario --mode $mode --with $tool $loop --runs "/tmp/captures/$tool" \
                        -o "$out/${scenario}_${mode}_$tool.json" --force >"/tmp/capture.txt" 2>"/tmp/capture.log" ||
                        { echo "$scenario $mode $tool: exit code $?"; tail -5 /tmp/capture.log; }
                    head -2 /tmp/capture.txt
                done
            done
        done
        tar czf "$out/captures.tgz" -C /tmp captures
        ;;
    diagnosis)
        timeout 200 $fdprof capture stop_flag --mode sync --with nsys --diagnose $loop --no-save 2>&1 |
            tail -40 | tee "$out/diagnosis.txt"
        ;;
    esac
done
ls -l "$out"
