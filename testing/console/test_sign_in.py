"""Signing in and out, dark and light, the keys, and that everything is reached with the Tab key."""

import pytest

import server as servers
from conftest import KEEPER, KEEPER_KEY


def test_a_wrong_key_is_refused_in_words(stranger):
    stranger.fill("Account", servers.ACCOUNT)
    stranger.fill("Account key", "bm90IHRoZSBrZXk=")
    stranger.press("Enter")
    stranger.wait(lambda: stranger.text("[role=alert]"), "words")
    assert stranger.run("document.querySelector('.menu') === null")


def test_with_a_key_and_out_again(stranger):
    stranger.fill("Account", servers.ACCOUNT)
    stranger.fill("Account key", servers.KEY)
    stranger.click("Sign in", kind="button[type=submit]")
    stranger.sees("This server")
    # The key is nowhere: not in what scripts can read of cookies, not in storage.
    assert not stranger.run("document.cookie")
    assert servers.KEY not in stranger.run("JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
    stranger.reload()
    stranger.sees("This server")
    stranger.click("Sign out")
    stranger.sees("Account key")
    stranger.reload()
    stranger.sees("Account key")


def test_a_session_that_ended_comes_back_where_it_was(fresh):
    fresh.open("#/queues")
    fresh.sees("New queue")
    fresh.run("fetch('/api/sign-out', {method: 'POST', headers: {'x-lazuli-console': '1'}}).then(() => true)")
    fresh.open("#/tables")
    fresh.sees("Your session ended")
    fresh.click("devstoreaccount1")
    fresh.sees("New table")


def test_a_session_is_of_one_account(stranger, server, blobs):
    if not server.own:
        pytest.skip("needs a server of its own")
    blobs.create_container("of-the-other-account")
    stranger.fill("Account", KEEPER)
    stranger.fill("Account key", KEEPER_KEY)
    stranger.press("Enter")
    stranger.sees("This server")
    stranger.open("#/blobs")
    stranger.sees("No container yet.")
    blobs.delete_container("of-the-other-account")


def test_dark_and_light(fresh):
    dark = fresh.look_name == "phone"
    ground = lambda: fresh.run("getComputedStyle(document.body).backgroundColor")
    at_first = ground()
    assert (at_first == "rgb(16, 21, 29)") == dark
    fresh.click("Dark or light")
    fresh.wait(lambda: ground() != at_first, "the other colours")
    # What was chosen outlasts a visit, and what the system prefers.
    fresh.reload()
    fresh.sees("This server")
    assert ground() != at_first


def test_keys(page):
    page.press("?")
    page.sees("to the search box")
    page.press("Escape")
    page.misses("to the search box")
    page.press("g", "q")
    page.sees("New queue")
    page.press("/")
    assert page.run("document.activeElement.matches('[data-search]')")
    # Letters are letters while somebody types.
    page.press("?", "g", "b")
    assert page.run("document.activeElement.value") == "?gb"
    page.press("Escape")
    assert page.run("document.activeElement === document.body")


def test_everything_is_reached_with_tab(fresh):
    fresh.open("#/requests")
    fresh.sees("Pause")
    wanted = set(fresh.run("[...document.querySelectorAll('a[href], button, input, select')].filter((one) => one.checkVisibility() && !one.closest('.grid')).map((one) => one.innerText || one.ariaLabel)"))
    seen = set()
    for _ in range(60):
        fresh.press("Tab")
        seen.add(fresh.run("document.activeElement.innerText || document.activeElement.ariaLabel"))
        assert fresh.run("""document.activeElement === document.body || document.activeElement.matches('.grid tr') ||
            getComputedStyle(document.activeElement).outlineStyle !== 'none'"""), "the focus is not visible"
    assert wanted <= seen, wanted - seen


def test_every_control_has_a_name(page):
    """Of the menu, the tools and the lists, on every page."""
    for where in ["#/", "#/blobs", "#/queues", "#/tables", "#/shares", "#/concurrency", "#/requests"]:
        page.open(where)
        page.wait(lambda: page.run("document.querySelector('.content').children.length > 0"), "the page")
        nameless = page.run("""[...document.querySelectorAll('button, a[href], input, select, textarea')].filter((one) => one.checkVisibility() &&
            !(one.innerText || one.ariaLabel || one.labels?.length)).map((one) => one.outerHTML)""")
        assert nameless == [], where
