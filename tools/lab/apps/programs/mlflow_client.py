import logging
import os
import sys

logging.disable(logging.CRITICAL)
import mlflow  # noqa: E402

mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment(f'lab-{os.getpid()}')
with mlflow.start_run(run_name='nightly') as run:
    mlflow.log_param('depth', 3)
    mlflow.log_metric('error', 0.25)
    mlflow.log_text('x' * 3_000_000, 'large.txt')
client = mlflow.MlflowClient()
read = client.get_run(run.info.run_id)
text = mlflow.artifacts.load_text(f'{read.info.artifact_uri}/large.txt')
sys.stdout.write(f'\ndepth {read.data.params["depth"]}, error {read.data.metrics["error"]}, artifact of {len(text)} bytes\n')
