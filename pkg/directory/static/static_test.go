package static

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

const team = `
people:
- username: alice
  uid: a-1
  displayName: Alice Adams
  email: alice@example.com
  aliases: [alice@example.com]
- username: bob
- {username: carol, disabled: true}
- {username: dora, aliases: [shared]}
- {username: dirk, aliases: [shared]}
- {username: twin, uid: "1"}
- {username: twin, uid: "2"}
- {username: same, aliases: [same]}
- {username: "../odd name: *)(uid=*%2f\u0000"}
- {username: système}
- {username: "system:serviceaccount:a:b"}
`

// world is a client over a folder of the test.
type world struct {
	*Client
	clock *clocktesting.FakeClock
	path  string
}

func newWorld(t *testing.T, content string) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(time.Unix(0, 0)), path: filepath.Join(t.TempDir(), "people.yaml")}
	w.write(t, content)
	w.open(t, w.path)
	return w
}

func (w *world) open(t *testing.T, path string) {
	t.Helper()
	c, err := New(Config{Path: path}, w.clock)
	require.NoError(t, err)
	w.Client = c
}

func (w *world) write(t *testing.T, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(w.path, []byte(content), 0o600))
}

func (w *world) known(t *testing.T, name string) *directory.Person {
	t.Helper()
	person, err := w.Lookup(t.Context(), name)
	require.NoError(t, err)
	return person
}

func (w *world) unknown(t *testing.T, name, why string) {
	t.Helper()
	person, err := w.Lookup(t.Context(), name)
	require.ErrorIs(t, err, directory.ErrUnknown)
	assert.EqualError(t, err, why)
	assert.Nil(t, person)
}

func (w *world) unavailable(t *testing.T, name, why string) {
	t.Helper()
	person, err := w.Lookup(t.Context(), name)
	require.NotErrorIs(t, err, directory.ErrUnknown)
	var u *directory.UnavailableError
	require.ErrorAs(t, err, &u)
	assert.Contains(t, u.Why, why)
	assert.NotContains(t, u.Why, filepath.Dir(w.path))
	assert.Equal(t, reread, u.RetryAfter)
	assert.Nil(t, person)
}

func TestPeopleOfTheFile(t *testing.T) {
	w := newWorld(t, team)
	alice := &directory.Person{UID: "a-1", DisplayName: "Alice Adams", Email: "alice@example.com"}
	for name, want := range map[string]*directory.Person{
		"alice": alice, "alice@example.com": alice, "bob": {}, "dora": {}, "dirk": {}, "same": {}, "système": {},
		"../odd name: *)(uid=*%2f\x00": {}, "system:serviceaccount:a:b": {},
	} {
		assert.Equal(t, want, w.known(t, name), name)
	}
	const absent = "the directory knows no such person"
	for name, why := range map[string]string{
		"eve": absent, "Alice": absent, "": absent, "syste\u0300me": absent,
		"carol": "the account is disabled", "shared": "the directory has this user name more than once",
		"twin": "the directory has this user name more than once",
	} {
		w.unknown(t, name, why)
	}
	w.unknown(t, "alice ", absent)
}

func TestNoneButPeopleOfAWholeFile(t *testing.T) {
	for name, test := range map[string]struct{ content, why string }{
		"empty":             {"", "names nobody"},
		"only comments":     {"# soon\n", "names nobody"},
		"empty list":        {"people: []\n", "names nobody"},
		"garbage":           {"\x00\x01\x02", "people.yaml is not valid"},
		"not a document":    {"- alice\n", "people.yaml is not valid"},
		"unknown field":     {"people: [{username: alice, admin: true}]\n", `unknown field "people[0].admin"`},
		"unknown beside":    {"people: [{username: alice}]\ngroups: []\n", `unknown field "groups"`},
		"double key":        {"people: [{username: alice, username: bob}]\n", "already set in map"},
		"no username":       {"people: [{username: alice}, {uid: x}]\n", "person 2 has an empty username or alias"},
		"empty alias":       {"people: [{username: alice, aliases: ['']}]\n", "person 1 has an empty username or alias"},
		"cut off":           {"people:\n- username: alice\n- {username: bo", "people.yaml is not valid"},
		"username a number": {"people: [{username: 007}]\n", "cannot unmarshal number"},
		"username no":       {"people: [{username: alice}, {username: no}]\n", "cannot unmarshal bool"},
		"second part":       {"people: [{username: alice}]\n---\nnobody: 1\n", `unknown field "nobody"`},
		"too large":         {"people: [{username: alice}]\n#" + strings.Repeat("x", maxBytes), "more than 32 MiB"},
	} {
		t.Run(name, func(t *testing.T) { newWorld(t, test.content).unavailable(t, "alice", test.why) })
	}
}

func TestChangesOfTheFileCount(t *testing.T) {
	w := newWorld(t, team)
	w.known(t, "bob")
	w.write(t, "people: [{username: alice}]\n")
	w.clock.Step(reread - 1)
	w.known(t, "bob")
	w.clock.Step(1)
	w.unknown(t, "bob", "the directory knows no such person")
	assert.Equal(t, &directory.Person{}, w.known(t, "alice"))

	w.write(t, "people: [{username: ")
	w.clock.Step(reread)
	w.unavailable(t, "alice", "people.yaml is not valid")
	w.write(t, team)
	w.clock.Step(reread)
	w.known(t, "bob")

	require.NoError(t, os.Remove(w.path))
	w.clock.Step(reread)
	w.unavailable(t, "bob", "cannot be read: no such file or directory")
	w.write(t, team)
	w.clock.Step(reread)
	w.known(t, "bob")
}

func TestEqualContentIsNotParsedAgain(t *testing.T) {
	w := newWorld(t, team)
	w.known(t, "alice")
	before := w.people
	w.write(t, team)
	w.clock.Step(reread)
	w.known(t, "alice")
	assert.Same(t, before, w.people)
}

func TestFileMayComeLater(t *testing.T) {
	w := &world{clock: clocktesting.NewFakeClock(time.Unix(0, 0)), path: filepath.Join(t.TempDir(), "people.yaml")}
	w.open(t, w.path)
	w.unavailable(t, "alice", "no such file or directory")
	w.write(t, team)
	w.clock.Step(reread)
	w.known(t, "alice")
}

func TestFolderIsReadTogether(t *testing.T) {
	w := newWorld(t, "people: [{username: alice}, {username: twin}]\n")
	folder := filepath.Dir(w.path)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "more.yml"), []byte("people: [{username: bob}, {username: twin}]\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "even.json"), []byte(`{"people":[{"username":"carol"}]}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "README.md"), []byte("not people"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".hidden.yaml"), []byte("not people"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "folder.yaml"), 0o700))
	w.open(t, folder)
	w.known(t, "alice")
	w.known(t, "bob")
	w.known(t, "carol")
	w.unknown(t, "twin", "the directory has this user name more than once")

	require.NoError(t, os.WriteFile(filepath.Join(folder, "more.yml"), []byte("people: {"), 0o600))
	w.clock.Step(reread)
	w.unavailable(t, "alice", "more.yml is not valid")

	w.open(t, t.TempDir())
	w.unavailable(t, "alice", "the folder has no file")
}

// mount is a folder that changes as the kubelet changes a mounted ConfigMap: all at once, by a symbolic link.
type mount struct {
	dir      string
	versions int
}

func newMount(t *testing.T, files map[string]string) *mount {
	t.Helper()
	m := &mount{dir: t.TempDir()}
	m.swap(t, files)
	for name := range files {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
	}
	return m
}

// swap shows other files, and removes the former version as the kubelet does.
func (m *mount) swap(t *testing.T, files map[string]string) {
	t.Helper()
	m.versions++
	dir := filepath.Join(m.dir, fmt.Sprint("..version_", m.versions))
	require.NoError(t, os.Mkdir(dir, 0o700))
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Base(dir), filepath.Join(m.dir, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	require.NoError(t, os.RemoveAll(filepath.Join(m.dir, fmt.Sprint("..version_", m.versions-1))))
}

// TestMountedConfigMapCountsWithoutARestart keeps one client over all changes, of the folder and of the file in it.
func TestMountedConfigMapCountsWithoutARestart(t *testing.T) {
	for name, file := range map[string]string{"folder": "", "file": "people.yaml"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, team)
			m := newMount(t, map[string]string{"people.yaml": team})
			w.open(t, filepath.Join(m.dir, file))
			w.known(t, "bob")

			m.swap(t, map[string]string{"people.yaml": "people: [{username: alice}]\n"})
			w.clock.Step(reread)
			w.unknown(t, "bob", "the directory knows no such person")
			w.known(t, "alice")

			m.swap(t, map[string]string{"people.yaml": "people: [{username: alice}, {username: "})
			w.clock.Step(reread)
			w.unavailable(t, "alice", "people.yaml is not valid")
			w.unavailable(t, "bob", "people.yaml is not valid")

			m.swap(t, map[string]string{"other.txt": team})
			w.clock.Step(reread)
			w.unavailable(t, "alice", "")

			m.swap(t, map[string]string{"people.yaml": team})
			w.clock.Step(reread)
			w.known(t, "bob")
		})
	}
}

// Somebody who asks while the link is turned sees one version or the other, never a part of both.
func TestS16_MountThatTurnsIsNeverHalfRead(t *testing.T) {
	w := newWorld(t, team)
	versions := []map[string]string{
		{"a.yaml": "people: [{username: alice}]\n", "b.yaml": "people: [{username: bob}]\n"},
		{"a.yaml": "people: [{username: bob}]\n", "b.yaml": "people: [{username: alice}]\n"},
	}
	m := newMount(t, versions[0])
	w.open(t, m.dir)
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			w.clock.Step(reread)
			for _, name := range []string{"alice", "bob"} {
				_, err := w.Lookup(t.Context(), name)
				assert.NotErrorIs(t, err, directory.ErrUnknown, name)
			}
		}
	})
	for i := range 200 {
		m.swap(t, versions[i%2])
	}
	close(stop)
	all.Wait()
}

func TestDocumentsOfAFileAreReadTogether(t *testing.T) {
	w := newWorld(t, "people: [{username: alice}, {username: twin}]\n---\npeople: [{username: bob}, {username: twin}]\n")
	w.known(t, "alice")
	w.known(t, "bob")
	w.unknown(t, "twin", "the directory has this user name more than once")
}

func TestPathIsNeeded(t *testing.T) {
	_, err := New(Config{}, clocktesting.NewFakeClock(time.Unix(0, 0)))
	assert.ErrorContains(t, err, "path is missing")
}

func TestManyAskWhileTheFileChanges(t *testing.T) {
	w := newWorld(t, team)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if _, err := w.Lookup(t.Context(), "alice"); err != nil {
					t.Error(err)
				}
				w.clock.Step(reread)
			}
		})
	}
	all.Wait()
}
