#!/usr/bin/env bash
# Captures of one loop by several tools, on a machine with a GPU: inputs of the cross-format check and of the tests.
# usage: benchmarks/capture_session.sh OUT [PART ...]      parts: modes faults graph scenarios torch paddle
set -u
out=$1
shift
parts=${*:-modes faults graph scenarios torch paddle}
mkdir -p "$out"
export PYTHONUNBUFFERED=1
loop="--device-us 500 --schedule-us 120 --save-output-us 80 --kernels 4 --steps 40 --warmup 5 --backend paddle"

# capture NAME NSYS-OPTIONS... -- COMMAND...: an sqlite export of the command's run, and what nsys said.
capture() {
    local name=$1 flags=()
    shift
    while [ "$1" != -- ]; do
        flags+=("$1")
        shift
    done
    shift
    timeout 100 nsys profile -t cuda,nvtx -s none --cpuctxsw=none -f true "${flags[@]}" -o "/tmp/$name" --export=sqlite \
        "$@" >"/tmp/$name.log" 2>&1 || { echo "$name: exit code $?"; tail -5 "/tmp/$name.log"; }
    [ -f "/tmp/$name.sqlite" ] && gzip -9 -c "/tmp/$name.sqlite" >"$out/$name.nsys.sqlite.gz" && ls -l "$out/$name.nsys.sqlite.gz"
}

for part in $parts; do
    echo "== $part"
    case $part in
    modes)
        for mode in sync async overlap overlap-copy-stream mapped unfenced; do
            capture "stop_flag_$mode" -- python3 -m fdprof run stop_flag --mode $mode $loop --runs "/tmp/runs_$mode"
            tar czf "$out/stop_flag_$mode.run.tar.gz" -C "/tmp/runs_$mode" .
        done
        head -c 512 /tmp/stop_flag_async.nsys-rep | od -A d -t x1z | head -32 >"$out/nsys_rep_head.txt"
        timeout 60 nsys export --type parquetdir -f true -o /tmp/async_parquet /tmp/stop_flag_async.nsys-rep >/tmp/parquet.log 2>&1
        tail -2 /tmp/parquet.log
        tar czf "$out/stop_flag_async.parquetdir.tar.gz" -C /tmp async_parquet
        python3 benchmarks/list_ranges.py /tmp/stop_flag_async.sqlite >"$out/nsys_ranges.txt"
        ;;
    faults)
        for fault in event-recorded-again; do
            capture "fault_$fault" -- python3 -m fdprof run stop_flag --mode overlap --fault $fault $loop --no-save
        done
        ;;
    graph)
        for level in graph node; do
            capture "graph_$level" "--cuda-graph-trace=$level" -- \
                python3 -m fdprof run stop_flag --mode overlap --launch graph $loop --no-save
        done
        capture event_trace --cuda-event-trace=true -- python3 -m fdprof run stop_flag --mode async $loop --no-save
        ;;
    scenarios)
        capture hidden_sync_async -- python3 -m fdprof run hidden_sync --mode async $loop --no-save
        capture logprobs_overlap -- python3 -m fdprof run logprobs --mode overlap $loop --no-save
        capture insert_tasks_sync -- python3 -m fdprof run insert_tasks --mode sync $loop --no-save
        ;;
    torch)
        for variant in item cpu fence next; do
            capture "torch_$variant" -c cudaProfilerApi -- python3 benchmarks/torch_loop.py $variant
            timeout 100 python3 benchmarks/torch_loop.py $variant --kineto "/tmp/torch_$variant.json" >"/tmp/$variant.log" 2>&1 ||
                tail -5 "/tmp/$variant.log"
            gzip -9 -c "/tmp/torch_$variant.json" >"$out/torch_$variant.kineto.json.gz"
        done
        ;;
    paddle)
        for mode in sync async overlap; do
            timeout 100 python3 benchmarks/paddle_profile.py $mode "/tmp/paddle_$mode.json" >"/tmp/paddle_$mode.log" 2>&1 ||
                tail -5 "/tmp/paddle_$mode.log"
            gzip -9 -c "/tmp/paddle_$mode.json" >"$out/stop_flag_$mode.paddle_trace.json.gz"
        done
        ;;
    *) echo "no such part: $part" >&2 ;;
    esac
done
ls -l "$out"
