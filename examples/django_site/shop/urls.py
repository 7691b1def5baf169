"""The addresses of this project."""

from django.urls import path

from shop import views

urlpatterns = [
    path("orders/", views.take),
    path("orders/<int:order_id>/", views.order, name="order"),
]
