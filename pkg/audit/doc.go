// Package audit reads the logs that API servers write: files of audit.k8s.io/v1 events, one on a line.
//
// Files are streamed, so a log may be larger than memory. A reader of a log that is still being written meets a last
// line of which only a part is there yet; that is no fault. Any other line that cannot be read is named, since whoever
// draws conclusions from a log must know that something is missing from it.
package audit
