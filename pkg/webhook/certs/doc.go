// Package certs keeps the serving certificate of the webhooks, and has the API server trust it.
//
// The material lives in one Secret, from which every replica serves. A rotation goes through three states, so that at no
// moment a replica serves what an API server does not trust, and no process restarts:
//
//  1. the next certificate is staged in the Secret beside the current one;
//  2. all webhook configurations trust the authorities of both, and have done so for Options.Overlap;
//  3. the next becomes the current one; the authority of the former stays trusted for replicas that lag behind.
//
// Every replica may take any step: each write carries the version that it was computed from, so of two only one counts,
// and what it wrote is where the other goes on.
package certs
