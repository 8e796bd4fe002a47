"""Runs MIB's own evaluation of circuits on a problem; `benchmarks.published.mib` starts it."""

import theirs
from eap_ig_worker import Inputs, start, take_tokens


def main():
    network, problem = start()
    from eap import evaluate
    from eap.graph import Graph
    from MIB_circuit_track.evaluation import evaluate_area_under_curve, evaluate_area_under_roc
    from print_results import area_under_curve

    take_tokens(evaluate)

    def ranked(scores):
        graph = Graph.from_model(network)
        for name, score in scores.items():
            graph.edges[name].score = score
        return graph

    def areas(scores, direction=None):
        """Returns CPR and CMD of a ranking of all edges, by their signed score."""
        inputs = Inputs(network, problem, direction)
        found = evaluate_area_under_curve(
            network, ranked(scores), inputs.batches(), inputs.logit_diff, quiet=True, absolute=False
        )
        return [found[1], found[2]]

    def auroc(scores, circuit):
        """Returns the area under the ROC curve of a ranking by absolute values."""
        reference = Graph.from_model(network)
        for name in circuit:
            reference.edges[name].in_graph = True
        found = evaluate_area_under_roc(reference, ranked(scores))
        return area_under_curve(found["FPR"], found["TPR"])

    theirs.serve({"areas": areas, "auroc": auroc})


if __name__ == "__main__":
    main()
