// Command reference prints the API reference, as Markdown, from the CRDs in config/crd/bases.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	var out strings.Builder
	if err := run(&out, "config/crd/bases", "config/crd/release"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, err := os.Stdout.WriteString(out.String()); err != nil {
		os.Exit(1)
	}
}

func run(out *strings.Builder, dirs ...string) error {
	var paths []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*_*.yaml"))
		if err != nil {
			return err
		}
		paths = append(paths, found...)
	}
	fmt.Fprint(out, "# API reference\n\nGenerated from the CRDs by `make generate`. *Required* fields are marked; limits are those that the API server enforces.\n")
	for _, path := range paths {
		crd, err := read(path)
		if err != nil {
			return err
		}
		describe(out, crd)
	}
	return nil
}

func read(path string) (*apiextensionsv1.CustomResourceDefinition, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return crd, nil
}

func describe(out *strings.Builder, crd *apiextensionsv1.CustomResourceDefinition) {
	version := crd.Spec.Versions[0]
	root := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(out, "\n## %s\n\n`%s/%s`, %s, short name `%s`. %s\n", crd.Spec.Names.Kind, crd.Spec.Group, version.Name,
		strings.ToLower(string(crd.Spec.Scope)), strings.Join(crd.Spec.Names.ShortNames, ", "), oneLine(root.Description))
	for _, rule := range root.XValidations {
		fmt.Fprintf(out, "\n- %s\n", oneLine(rule.Message))
	}
	for _, part := range []string{"spec", "status"} {
		schema, ok := root.Properties[part]
		if !ok {
			continue
		}
		fmt.Fprintf(out, "\n### %s.%s\n\n", crd.Spec.Names.Kind, part)
		if len(schema.Properties) == 0 {
			fmt.Fprintf(out, "%s\n", oneLine(schema.Description))
			continue
		}
		fmt.Fprint(out, "| field | type | |\n|---|---|---|\n")
		fields(out, "", &schema)
	}
}

func fields(out *strings.Builder, prefix string, schema *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		path := prefix + name
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", path, kindOf(&field), remarks(&field, slices.Contains(schema.Required, name)))
		switch {
		case field.Items != nil && field.Items.Schema != nil:
			fields(out, path+"[].", field.Items.Schema)
		case len(field.Properties) > 0:
			fields(out, path+".", &field)
		}
	}
}

func kindOf(field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.Items != nil && field.Items.Schema != nil:
		return "list of " + kindOf(field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map of " + kindOf(field.AdditionalProperties.Schema)
	case field.Format == "date-time":
		return "time"
	case field.Type == "":
		return "any"
	}
	return field.Type
}

// remarks are the description, the limits and the rules of a field.
func remarks(field *apiextensionsv1.JSONSchemaProps, required bool) string {
	var parts []string
	if required {
		parts = append(parts, "*Required.*")
	}
	if text := oneLine(field.Description); text != "" {
		parts = append(parts, strings.TrimSuffix(text, ".")+".")
	}
	if len(field.Enum) > 0 {
		parts = append(parts, "One of "+enum(field.Enum)+".")
	}
	if field.Default != nil {
		parts = append(parts, "Default `"+string(field.Default.Raw)+"`.")
	}
	for name, limit := range map[string]*int64{"items": field.MaxItems, "characters": field.MaxLength} {
		if limit != nil {
			parts = append(parts, fmt.Sprintf("At most %d %s.", *limit, name))
		}
	}
	for _, rule := range field.XValidations {
		parts = append(parts, oneLine(rule.Message)+".")
	}
	return strings.ReplaceAll(strings.Join(parts, " "), "|", `\|`)
}

func enum(values []apiextensionsv1.JSON) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = "`" + strings.Trim(string(value.Raw), `"`) + "`"
	}
	return strings.Join(texts, ", ")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
