#!/usr/bin/env bash
# Everything that needs a GPU, in one command: results go to the folder given.
# usage: benchmarks/gpu_session.sh OUT [PART ...]      parts: doctor table record tests nsys (default: all)
set -u
out=$1
shift
parts=${*:-doctor table record tests nsys}
mkdir -p "$out"
export PYTHONUNBUFFERED=1
for part in $parts; do
    echo "== $part"
    case $part in
    doctor) timeout 300 python3 -m fdprof doctor | tee "$out/doctor.txt" ;;
    table)
        timeout 200 python3 benchmarks/mode_table.py --backend paddle -o "$out/mode_table.json" --runs /tmp/fdprof-runs |
            tee "$out/mode_table.txt"
        tar -C /tmp -czf "$out/runs.tar.gz" fdprof-runs
        ;;
    record)
        timeout 100 python3 benchmarks/recorder_cost.py | tee "$out/recorder_cost.txt"
        timeout 100 python3 benchmarks/flag_cost.py | tee "$out/get_stop.txt"
        ;;
    tests) timeout 300 python3 -m pytest -q -m gpu -p no:cacheprovider tests 2>&1 | tail -60 | tee "$out/gpu_tests.txt" ;;
    nsys)
        nsys profile -t cuda,nvtx -s none --cpuctxsw=none -f true -o /tmp/stop_flag_async --export=sqlite \
            python3 -m fdprof run stop_flag --mode async --steps 40 --warmup 5 --backend paddle --no-save | tail -40
        python3 benchmarks/list_ranges.py /tmp/stop_flag_async.sqlite | tee "$out/nsys_ranges.txt"
        gzip -c /tmp/stop_flag_async.sqlite > "$out/stop_flag_async.sqlite.gz"
        ;;
    esac
done
