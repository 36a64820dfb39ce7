"""Settings of a Django project that limits tasks. What differs between tests comes by the environment."""

import os
from typing import Any

import django

SECRET_KEY = "of a test"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.django.urls"
USE_TZ = True
STATIC_URL = "static/"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "celery_semaphore.django",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "tests.django.urls.strict",
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
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SQLITE", ":memory:"),
        "OPTIONS": {"transaction_mode": os.environ["SQLITE_MODE"]}
        if "SQLITE_MODE" in os.environ
        else {},
    }
}
if "POSTGRES_PORT" in os.environ:
    DATABASES["permits"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["POSTGRES_NAME"],
        "USER": "postgres",
        "HOST": "127.0.0.1",
        "PORT": os.environ["POSTGRES_PORT"],
        "ATOMIC_REQUESTS": True,
        "CONN_MAX_AGE": 0,
        "OPTIONS": {"isolation_level": 4, "application_name": "shop"},
    }
    if "ROLE" in os.environ:
        DATABASES["permits"]["OPTIONS"]["assume_role"] = os.environ["ROLE"]
    if django.VERSION >= (5, 1):
        DATABASES["permits"]["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 1, "timeout": 1}
if "MARIA_PORT" in os.environ:
    import pymysql

    pymysql.install_as_MySQLdb()
    DATABASES["maria"] = {
        "ENGINE": "django.db.backends.mysql",
        "NAME": os.environ["MARIA_NAME"],
        "USER": "root",
        "HOST": "127.0.0.1",
        "PORT": os.environ["MARIA_PORT"],
        "OPTIONS": {"charset": "utf8mb4"},
    }
if "NEIGHBOURS" in os.environ:
    INSTALLED_APPS += ["django_celery_results", "django_celery_beat"]
    permits = DATABASES.pop("permits")
    DATABASES["default"] = {
        part: permits[part] for part in ("ENGINE", "NAME", "USER", "HOST", "PORT")
    }
    CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
    CELERY_RESULT_EXTENDED = True
    CELERY_SEMAPHORE_TRACK_WAITING = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

CELERY_BROKER_URL = os.environ.get("BROKER", "memory://")
CELERY_RESULT_BACKEND = os.environ.get("BACKEND")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
if "STORE" in os.environ:
    CELERY_SEMAPHORE_URL = os.environ["STORE"]
