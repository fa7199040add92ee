"""MLflow's store: its migrations by Alembic, and what its client asks."""
import os
import sys
import tempfile

from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore as Registry
from mlflow.entities import Metric, Param, RunTag, ViewType

import asked

url = "postgresql+psycopg2://{PGUSER}@{PGHOST}:{PGPORT}/{PGDATABASE}".format(**os.environ)
artifacts = tempfile.mkdtemp()
store = SqlAlchemyStore(url, artifacts)
if sys.argv[1] == "migrate":
    sys.exit()
registry, runs = Registry(url), []


def experiments():
    made = [store.create_experiment(name) for name in ("first", "second")]
    store.set_experiment_tag(made[0], __import__("mlflow").entities.ExperimentTag("team", "red"))
    store.delete_experiment(made[1])
    found = store.search_experiments(ViewType.ALL, filter_string="name LIKE '%s%'", order_by=["name DESC"])
    return [(one.name, one.lifecycle_stage, one.tags) for one in found]


def log():
    experiment = store.get_experiment_by_name("first").experiment_id
    for number in range(12):
        run = store.create_run(experiment, "someone", 1000 + number, [RunTag("kind", "even" if number % 2 == 0 else "odd")], f"run {number}")
        runs.append(run.info.run_id)
        store.log_batch(runs[-1], [Metric("loss", 1 / (step + number + 1), 2000 + step, step) for step in range(20)],
                        [Param("depth", str(number)), Param("name", "a" * number)], [RunTag("note", "x")])
    store.log_metric(runs[0], Metric("nothing", float("nan"), 3000, 0))
    return [store.get_run(runs[3]).data.to_dictionary()]


def search():
    experiment = store.get_experiment_by_name("first").experiment_id
    found = [store.search_runs([experiment], text, ViewType.ACTIVE_ONLY, max_results=5, order_by=order) for text, order in (
        ("metrics.loss < 0.04 and params.depth != '3'", ["metrics.loss DESC"]), ("tags.kind = 'even'", ["params.depth ASC"]),
        ("attributes.run_name ILIKE 'RUN 1%'", ["start_time DESC"]), ("tags.kind IS NOT NULL", ["attribute.end_time", "start_time"]))]
    return [[run.info.run_name for run in page] for page in found]


def history():
    return [[(metric.step, metric.value) for metric in store.get_metric_history(runs[2], "loss")], [store.delete_run(runs[1]), store.restore_run(runs[1])]]


def models():
    registry.create_registered_model("model", description="one")
    for run in runs[:3]:
        registry.create_model_version("model", f"file:///{run}"[:12], run)
    registry.transition_model_version_stage("model", "2", "Production", archive_existing_versions=True)
    registry.set_registered_model_alias("model", "best", "3")
    registry.rename_registered_model("model", "renamed")
    try:
        registry.create_registered_model("renamed")
    except Exception as error:
        refused = type(error).__name__
    found = registry.search_model_versions("name = 'renamed'", order_by=["version_number DESC"])
    return [refused, [(one.version, one.current_stage) for one in found], registry.get_model_version_by_alias("renamed", "best").version]


def removed():
    registry.delete_registered_model("renamed")
    store.delete_experiment(store.get_experiment_by_name("first").experiment_id)
    return [len(registry.search_registered_models()), [one.name for one in store.search_experiments()]]


for request in (experiments, log, search, history, models, removed):
    asked.ask(request.__name__, request)
