// Judges NetworkPolicy objects as Kubernetes and cyclonus do: reads questions as JSON, writes answers as JSON.
//
// Whether an object is accepted is what the validation of the API server says, with unknown fields refused as kubectl
// has it. What passes is what cyclonus simulates, with selectors that the library of Kubernetes has resolved.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/apis/networking"
	internalv1 "k8s.io/kubernetes/pkg/apis/networking/v1"
	"k8s.io/kubernetes/pkg/apis/networking/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

type question struct {
	Policies []string
	Traffic  []matcher.Traffic
}

type answer struct {
	Refused string
	Allowed []bool
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		fail(err)
	}
	answers := make([]answer, 0, len(questions))
	for _, asked := range questions {
		answers = append(answers, judge(asked))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fail(err)
	}
}

func judge(asked question) answer {
	var policies []*networkingv1.NetworkPolicy
	for _, text := range asked.Policies {
		policy, err := read(text)
		if err != nil {
			return answer{Refused: err.Error()}
		}
		policies = append(policies, policy)
	}
	resolve(policies, asked.Traffic)
	rules := matcher.BuildNetworkPolicies(false, policies)
	found := answer{Allowed: []bool{}}
	for at := range asked.Traffic {
		found.Allowed = append(found.Allowed, rules.IsTrafficAllowed(&asked.Traffic[at]).IsAllowed())
	}
	return found
}

// resolve lets Kubernetes' own library decide which labels a selector matches: cyclonus has it that `NotIn` does not match
// where the label is missing. Each selector becomes one for a label that the peers have which it matches.
func resolve(policies []*networkingv1.NetworkPolicy, traffic []matcher.Traffic) {
	number := 0
	name := func(selector *metav1.LabelSelector, labelsOf func(*matcher.InternalPeer) map[string]string) {
		if selector == nil {
			return
		}
		number++
		key := fmt.Sprintf("selector-%d", number)
		matches, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			fail(err)
		}
		for _, packet := range traffic {
			for _, peer := range []*matcher.TrafficPeer{packet.Source, packet.Destination} {
				if peer.Internal != nil && matches.Matches(labels.Set(labelsOf(peer.Internal))) {
					labelsOf(peer.Internal)[key] = "matches"
				}
			}
		}
		*selector = metav1.LabelSelector{MatchLabels: map[string]string{key: "matches"}}
	}
	ofPod := func(peer *matcher.InternalPeer) map[string]string { return peer.PodLabels }
	ofNamespace := func(peer *matcher.InternalPeer) map[string]string { return peer.NamespaceLabels }
	peers := func(found []networkingv1.NetworkPolicyPeer) {
		for _, peer := range found {
			name(peer.PodSelector, ofPod)
			name(peer.NamespaceSelector, ofNamespace)
		}
	}
	for _, policy := range policies {
		name(&policy.Spec.PodSelector, ofPod)
		for _, rule := range policy.Spec.Ingress {
			peers(rule.From)
		}
		for _, rule := range policy.Spec.Egress {
			peers(rule.To)
		}
	}
}

func read(text string) (*networkingv1.NetworkPolicy, error) {
	policy := &networkingv1.NetworkPolicy{}
	// Not typed: the API server gets the values that the text has, so the number 12 is no label.
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	unknown, err := kjson.UnmarshalStrict(raw, policy)
	if err == nil && len(unknown) > 0 {
		err = unknown[0]
	}
	if err != nil {
		return nil, err
	}
	if policy.Namespace == "" {
		policy.Namespace = "default"
	}
	internalv1.SetObjectDefaults_NetworkPolicy(policy)
	internal := &networking.NetworkPolicy{}
	if err := internalv1.Convert_v1_NetworkPolicy_To_networking_NetworkPolicy(policy, internal, nil); err != nil {
		return nil, err
	}
	options := validation.NetworkPolicyValidationOptions{}
	if errors := validation.ValidateNetworkPolicy(internal, options); len(errors) > 0 {
		return nil, errors.ToAggregate()
	}
	return policy, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "networkpolicy:", err)
	os.Exit(1)
}
