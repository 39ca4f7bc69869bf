#!/usr/bin/env bash
# Everything that needs a GPU, in one command: results go to the folder given.
# usage: benchmarks/gpu_session.sh OUT [PART ...]      parts: doctor tests scenarios reversed costs waits hazards table record varying compare nsys
set -u
out=$1
shift
parts=${*:-doctor tests scenarios reversed costs waits hazards table record varying compare nsys}
mkdir -p "$out"
export PYTHONUNBUFFERED=1
for part in $parts; do
    echo "== $part"
    case $part in
    doctor) timeout 300 python3 -m fdprof doctor | tee "$out/doctor.txt" ;;
    tests) timeout 300 python3 -m pytest -q -m gpu -p no:cacheprovider tests 2>&1 | tail -60 | tee "$out/gpu_tests.txt" ;;
    scenarios)
        timeout 240 python3 benchmarks/scenario_table.py --backend paddle -o "$out/scenario_table.json" |
            tee "$out/scenario_table.txt"
        ;;
    reversed)
        timeout 240 python3 benchmarks/scenario_table.py --backend paddle --reverse -o "$out/scenario_table_reversed.json" |
            tee "$out/scenario_table_reversed.txt"
        ;;
    costs)
        timeout 100 python3 benchmarks/transfer_cost.py --backend paddle -o "$out/transfer_cost.json" |
            tee "$out/transfer_cost.txt"
        ;;
    waits)
        timeout 100 python3 benchmarks/wait_styles.py --backend paddle -o "$out/wait_styles.json" |
            tee "$out/wait_styles.txt"
        ;;
    hazards) timeout 200 python3 -m fdprof hazards --backend paddle --seeds 20 2>&1 | tee "$out/hazards.txt" ;;
    table)
        timeout 200 python3 benchmarks/mode_table.py --backend paddle -o "$out/mode_table.json" |
            tee "$out/mode_table.txt"
        ;;
    record)
        timeout 100 python3 benchmarks/recorder_cost.py | tee "$out/recorder_cost.txt"
        timeout 100 python3 benchmarks/flag_cost.py | tee "$out/get_stop.txt"
        ;;
    varying)
        timeout 100 python3 benchmarks/varying_times.py --backend paddle -o "$out/varying_times.json" |
            tee "$out/varying_times.txt"
        ;;
    compare) timeout 500 python3 benchmarks/compare_cases.py --backend paddle -o "$out/compare" | tee "$out/compare.txt" ;;
    nsys)
        nsys profile -t cuda,nvtx -s none --cpuctxsw=none -f true -o /tmp/stop_flag_async --export=sqlite \
            python3 -m fdprof run stop_flag --mode async --steps 40 --warmup 5 --backend paddle --no-save | tail -40
        python3 benchmarks/list_ranges.py /tmp/stop_flag_async.sqlite | tee "$out/nsys_ranges.txt"
        ;;
    *) echo "no such part: $part" >&2 ;;
    esac
done
