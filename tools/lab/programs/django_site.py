# Serves Django's own administration; run by itself, it makes the database and an administrator.
import os, sys
from django.conf import settings
settings.configure(DEBUG=False, SECRET_KEY='x' * 50, ALLOWED_HOSTS=['127.0.0.1'], ROOT_URLCONF=__name__,
  INSTALLED_APPS=['django.contrib.admin','django.contrib.auth','django.contrib.contenttypes','django.contrib.sessions','django.contrib.messages'],
  MIDDLEWARE=['django.contrib.sessions.middleware.SessionMiddleware','django.middleware.csrf.CsrfViewMiddleware','django.contrib.auth.middleware.AuthenticationMiddleware','django.contrib.messages.middleware.MessageMiddleware'],
  TEMPLATES=[{'BACKEND':'django.template.backends.django.DjangoTemplates','APP_DIRS':True,'OPTIONS':{'context_processors':['django.template.context_processors.request','django.contrib.auth.context_processors.auth','django.contrib.messages.context_processors.messages']}}],
  DATABASES={'default':{'ENGINE':'django.db.backends.sqlite3','NAME':'db.sqlite3'}}, STATIC_URL='/static/', DEFAULT_AUTO_FIELD='django.db.models.AutoField')
import django; django.setup()
from django.contrib import admin
from django.urls import path
urlpatterns = [path('admin/', admin.site.urls)]
from django.core.wsgi import get_wsgi_application
application = get_wsgi_application()
if __name__ == '__main__':
  from django.core.management import call_command
  call_command('migrate', verbosity=0)
  from django.contrib.auth.models import User
  User.objects.create_superuser('root', 'root@corp.example', 'a long password')
