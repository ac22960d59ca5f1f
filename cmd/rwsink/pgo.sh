#!/usr/bin/env bash
# Makes default.pgo, beside this script, from processor profiles of bin/rwsink under load. 1.0 and 2.0 in
# order of time are a third each; late samples, native histograms and replay after kill -9 are the rest.
set -euo pipefail
cd "$(dirname "$0")/../.."

dir=$(mktemp -d)
server= sender=
trap 'end $server $sender; rm -rf "$dir"' EXIT
export PPROF_TMPDIR=$dir/fetched # pprof keeps a copy of each
# A profile names the file of the program; from here it does not tell where the tree lies.
cp bin/rwsink "$dir/rwsink"
GO=${GO:-go}
"$GO" tool -n pprof >/dev/null # compiles it, where that has not been done: no load waits for it then

# Ends processes of this script as kill -9 does.
end() {
  for p in "$@"; do
    { kill -9 "$p" && wait "$p"; } 2>/dev/null || true
  done
}

# Waits for a command to succeed: two minutes, and no longer than the process lives that it waits for.
wait_for() { # process command...
  local process=$1 until=$((SECONDS + 120))
  shift
  while [ $SECONDS -lt $until ] && kill -0 "$process" 2>/dev/null; do
    if "$@" 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "in vain: $*" >&2
  cat "$dir"/*.log >&2
  exit 1
}

listens() { (: <>"/dev/tcp/127.0.0.1/$port"); }

# Starts the server, again perhaps; it listens while it replays.
serve() {
  "$dir/rwsink" serve --storage.path="$dir/data" --web.listen-address="127.0.0.1:$port" \
    --web.enable-admin-api --log.level=error 2>>"$dir/server.log" &
  server=$!
  wait_for $server listens
}

# Takes a profile of so many seconds.
profile() { # name seconds
  "$GO" tool pprof -proto -seconds="$2" -output="$dir/$1.pb.gz" "http://127.0.0.1:$port/debug/pprof/profile" >/dev/null
}

# The same, of the server while it takes a load that goes on for longer.
under_load() { # name seconds flags...
  local name=$1 seconds=$2
  "$dir/rwsink" bench load --url="http://127.0.0.1:$port/api/v1/write" --duration=$((seconds + 3))s "${@:3}" >"$dir/$name.out" 2>"$dir/$name.log" &
  sender=$!
  wait_for $sender grep -q '^pass 1' "$dir/$name.log"
  profile "$name" "$seconds"
  kill -0 "$sender" 2>/dev/null || { echo "$name: the load ended before the profile: give it more --samples" >&2; exit 1; }
  if ! wait "$sender"; then
    sender=
    cat "$dir/$name.log" "$dir/$name.out" >&2
    exit 1
  fi
  sender=
}

port=$((20000 + RANDOM % 12000)) # below those of outgoing connections
if listens 2>/dev/null; then
  echo "port $port is taken, try again" >&2
  exit 1
fi
serve
wait_for $server "$dir/rwsink" probe "http://127.0.0.1:$port" >/dev/null
under_load v1 8 --seed=1 --samples=300
under_load v2 8 --seed=2 --samples=300 --protocol=2
under_load late 3 --seed=3 --samples=200 --late=25
under_load histograms 3 --seed=4 --series=5000 --samples=1000 --values=histogram
end "$server"
server=
serve
profile replay 4
"$GO" tool pprof -proto -output="$dir/default.pgo" "$dir"/*.pb.gz >/dev/null
end "$server"
server=
mv "$dir/default.pgo" cmd/rwsink/default.pgo
