package relay

import (
	"net"
	"testing"
	"time"
)

// patience bounds steps that take a moment.
const patience = 10 * time.Second

func loopback(t *testing.T) *net.UDPConn {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	_ = socket.SetDeadline(time.Now().Add(patience))
	return socket
}

func start(t *testing.T, network Network) (started *Relay, server, client *net.UDPConn) {
	t.Helper()
	server = loopback(t)
	started, err := Start(server.LocalAddr().(*net.UDPAddr), network, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(started.Close)
	return started, server, loopback(t)
}

func send(t *testing.T, from *net.UDPConn, to net.Addr, text string) {
	t.Helper()
	if _, err := from.WriteTo([]byte(text), to); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, at *net.UDPConn, want string) net.Addr {
	t.Helper()
	buffer := make([]byte, 2048)
	count, from, err := at.ReadFrom(buffer)
	if err != nil || string(buffer[:count]) != want {
		t.Fatalf("%q and not %q: %v", buffer[:count], want, err)
	}
	return from
}

func TestClientsHaveASocketEach(t *testing.T) {
	relay, server, one := start(t, Network{})
	other := loopback(t)
	send(t, one, relay.Address(), "one")
	atOne := receive(t, server, "one")
	send(t, other, relay.Address(), "other")
	atOther := receive(t, server, "other")
	if atOne.String() == atOther.String() {
		t.Fatal("they share a socket")
	}
	send(t, server, atOther, "to other")
	send(t, server, atOne, "to one")
	receive(t, one, "to one")
	receive(t, other, "to other")
	if counts := relay.Counts(); counts.Passed != 4 || counts != (Counts{Passed: 4}) {
		t.Errorf("%+v", counts)
	}
}

func TestDatagramsAreDelayed(t *testing.T) {
	const delay = 50 * time.Millisecond
	relay, server, client := start(t, Network{Delay: delay})
	began := time.Now()
	send(t, client, relay.Address(), "there")
	from := receive(t, server, "there")
	send(t, server, from, "back")
	receive(t, client, "back")
	if took := time.Since(began); took < 2*delay {
		t.Error(took)
	}
}

func TestLongDatagramsDoNotPass(t *testing.T) {
	relay, server, client := start(t, Network{})
	send(t, client, relay.Address(), string(make([]byte, mtu+1)))
	send(t, client, relay.Address(), "short")
	receive(t, server, "short")
	if counts := relay.Counts(); counts != (Counts{Passed: 1, TooLong: 1}) {
		t.Errorf("%+v", counts)
	}
}

func TestRelayTakesAnotherPort(t *testing.T) {
	relay, server, client := start(t, Network{RebindEvery: 2})
	var ports []string
	for range 4 {
		send(t, client, relay.Address(), "x")
		ports = append(ports, receive(t, server, "x").String())
	}
	if ports[0] != ports[1] || ports[1] == ports[2] || ports[2] != ports[3] {
		t.Error(ports)
	}
	if err := relay.Rebind(); err != nil {
		t.Fatal(err)
	}
	send(t, client, relay.Address(), "y")
	from := receive(t, server, "y")
	if from.String() == ports[3] {
		t.Error("the port is the same")
	}
	send(t, server, from, "back")
	receive(t, client, "back")
	if relay.Counts().Rebound < 2 {
		t.Errorf("%+v", relay.Counts())
	}
}

func TestWhatWasOnItsWaySurvivesARebinding(t *testing.T) {
	relay, server, client := start(t, Network{Delay: 50 * time.Millisecond})
	send(t, client, relay.Address(), "there")
	from := receive(t, server, "there")
	send(t, server, from, "back")
	for end := time.Now().Add(patience); relay.Counts().Passed < 2 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if err := relay.Rebind(); err != nil {
		t.Fatal(err)
	}
	receive(t, client, "back")
}
