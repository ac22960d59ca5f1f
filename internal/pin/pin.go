package pin

import (
	_ "github.com/alecthomas/kingpin/v2"
	_ "github.com/gogo/protobuf/proto"
	_ "github.com/golang/snappy"
	_ "github.com/klauspost/compress/s2"
	_ "github.com/oklog/run"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/common/promslog"
	_ "github.com/prometheus/exporter-toolkit/web/kingpinflag"
	_ "github.com/prometheus/prometheus/model/relabel"
	_ "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	_ "github.com/prometheus/prometheus/promql"
	_ "github.com/prometheus/prometheus/storage/remote"
	_ "github.com/prometheus/prometheus/tsdb"
	_ "github.com/zeebo/xxh3"
	_ "go.uber.org/goleak"
	_ "pgregory.net/rapid"
)
