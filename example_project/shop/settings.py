"""Configure a usual Django project; the settings of semaphores are at the end."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).parent

SECRET_KEY = "no secret: this is an example"
DEBUG = True  # so that `runserver` also serves the style sheets
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "example_project.shop.urls"
USE_TZ = True
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "celery_semaphore.django",
    "example_project.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def database(url: str) -> dict[str, object]:
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        # The worker's processes write too: each waits for its turn.
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": parts.path,
            "OPTIONS": {"timeout": 20},
        }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.strip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname,
        "PORT": parts.port,
    }


DATABASES = {"default": database(os.environ.get("SHOP_DATABASE", f"sqlite://{HERE}/db.sqlite3"))}

CARRIER = os.environ.get("SHOP_CARRIER", "127.0.0.1:8001")  # its API takes five calls at a time

CELERY_BROKER_URL = os.environ.get("SHOP_BROKER", "redis://127.0.0.1:6379/0")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_BEAT_SCHEDULE = {
    "orders come in": {"task": "example_project.shop.tasks.take_orders", "schedule": 20.0},
    "reports": {"task": "example_project.shop.tasks.export_for_all", "schedule": 45.0},
}

# Where permits are kept; not needed where the broker is Redis. With PostgreSQL: "django://default".
CELERY_SEMAPHORE_URL = os.environ.get("SHOP_STORE") or None
CELERY_SEMAPHORE_METRICS_PORT = int(os.environ.get("SHOP_METRICS_PORT", "0"))  # 0: not exposed
