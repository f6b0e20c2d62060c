// Package rest asks directories that speak HTTP.
package rest
