package processor

import (
	"slices"
	"testing"

	mode "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

func TestScriptsAreReadByPhase(t *testing.T) {
	script, err := Parse("request-headers set x-one two words; any unknown; request-body immediate 403 no entry; identity")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		phase   Phase
		actions []string
	}{
		{RequestHeaders, []string{"set", "unknown"}}, {RequestBody, []string{"unknown", "immediate"}}, {ResponseTrailers, []string{"unknown"}},
	} {
		var actions []string
		for _, step := range script.stepsOf(one.phase) {
			actions = append(actions, step.Action)
		}
		if !slices.Equal(actions, one.actions) {
			t.Errorf("%s: %v and not %v", one.phase, actions, one.actions)
		}
	}
	if step := script[0]; step.text(0) != "x-one" || step.text(1) != "two words" {
		t.Error(step)
	}
	if step := script[2]; step.number(0) != 403 || step.text(1) != "no entry" {
		t.Error(step)
	}
}

func TestScriptsThatSayNothingAreErrors(t *testing.T) {
	for _, text := range []string{"set x y", "request-headers", "request-headers dance", "request-headers set x", "hex:zz"} {
		if script, err := Parse(text); err == nil {
			t.Errorf("%q is %v", text, script)
		}
	}
}

func TestAnswersAreOfThePhaseUnlessTheScriptSaysOtherwise(t *testing.T) {
	read := func(text string) Script {
		script, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return script
	}
	body := &extproc.HttpBody{Body: []byte("abc"), EndOfStream: true}
	if got := answer(RequestBody, read("request-body upper"), body).GetRequestBody().GetResponse().GetBodyMutation().GetBody(); string(got) != "ABC" {
		t.Errorf("%q", got)
	}
	if answer(RequestBody, read("request-body as response-headers"), body).GetResponseHeaders() == nil {
		t.Error("not of the other phase")
	}
	if got := answer(ResponseBody, read("response-body immediate 403 x"), body).GetImmediateResponse(); got.GetStatus().GetCode() != 403 {
		t.Error(got)
	}
	if got := modes("request-body=Buffered,response-headers=Skip"); got.RequestBodyMode != mode.ProcessingMode_BUFFERED ||
		got.ResponseHeaderMode != mode.ProcessingMode_SKIP {
		t.Error(got)
	}
}
