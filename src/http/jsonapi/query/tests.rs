//! Which parameters are understood, and which are refused by name.

use crate::http::jsonapi::error::ErrorSource;
use crate::http::jsonapi::query::*;

/// The refused parameters of a list's query.
fn refused(raw: &str) -> Vec<String> {
    let error = Query::parse(raw).and_then(|query| list(&query, false)).expect_err(raw);
    assert_eq!(error.status().as_u16(), 400, "{raw}");
    error
        .errors
        .iter()
        .map(|error| match &error.source {
            Some(ErrorSource::Parameter(name)) => format!("{} {name}", error.code),
            None => error.code.to_string(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn the_parameters_of_the_list_are_understood() {
    for raw in [
        "",
        "&&",
        "fields[document-collection]=name,directory",
        "fields%5Bmedia-collection%5D=",
        "fields[document-collection]=type,nope&fields[media-collection]=accept",
        "sort=name",
        "sort=-type,directory,-id",
        "filter[type]=document&filter[name]=A+B&filter%5Bdirectory%5D=content%2Fposts",
        "page[size]=10",
        "page[after]=",
        "page[before]=&page[size]=2",
        "page[number]=2&page[size]=100",
        "page[offset]=0",
        "page[limit]=1000",
        "page[offset]=18446744073709551616&page[limit]=99999999999999999999999",
    ] {
        let query = Query::parse(raw).unwrap();
        assert!(list(&query, false).is_ok(), "{raw}: {:?}", list(&query, false));
    }
}

#[test]
fn a_query_is_a_link_as_it_is_but_for_what_no_uri_can_hold() {
    for (sent, linked) in [
        ("", ""),
        ("fields%5bx%5D=a,b&sort=-name+x&a='(1)*;:@/?$!~", "fields%5bx%5D=a,b&sort=-name+x&a='(1)*;:@/?$!~"),
        ("fields[x]={a}|b\\c^d`e\"f g<h>", "fields%5Bx%5D=%7Ba%7D%7Cb%5Cc%5Ed%60e%22f%20g%3Ch%3E"),
        ("filter[name]=\u{e4}", "filter%5Bname%5D=%C3%A4"),
        ("100%", "100%25"),
        ("%", "%25"),
        ("%4&%zz%%41", "%254&%25zz%25%41"),
    ] {
        assert_eq!(in_uri(sent), linked, "{sent}");
        let pairs = |raw: &str| Query::parse(raw).unwrap().pairs;
        assert_eq!(pairs(linked), pairs(sent), "{sent}");
    }
}

#[test]
fn a_backslash_before_a_comma_makes_it_part_of_a_name() {
    let scope = EventScope { collection: true, pages: true, cursor_profile: false };
    for (raw, actors) in [
        ("Mara,+Jo", &["Mara", "Jo"][..]),
        ("Doe\\,+Jane,Jo", &["Doe, Jane", "Jo"]),
        ("Doe%5C%2C+Jane", &["Doe, Jane"]),
        ("A\\B", &["A\\B"]),
        ("A\\\\,B", &["A\\", "B"]),
        ("A\\", &["A\\"]),
    ] {
        let query = Query::parse(&format!("filter[actor]={raw}")).unwrap();
        assert_eq!(events(&query, scope).unwrap().actors, actors, "{raw}");
    }
}

#[test]
fn everything_else_is_refused_by_name() {
    for (raw, faults) in [
        ("include=", &["bad_request include"][..]),
        ("include=author", &["bad_request include"]),
        ("foo=1", &["bad_request foo"]),
        ("fooBar", &["bad_request fooBar"]),
        ("=1", &["bad_request "]),
        ("sort=", &["bad_request sort"]),
        ("sort=format", &["bad_request sort"]),
        ("sort=name,", &["bad_request sort"]),
        ("sort=--name", &["bad_request sort"]),
        ("sort=+name", &["bad_request sort"]),
        ("sort[name]=1", &["bad_request sort[name]"]),
        ("sort=id&sort=name", &["bad_request sort"]),
        ("a=1&a=2&a=3", &["bad_request a", "bad_request a", "bad_request a", "bad_request a"]),
        ("filter=x", &["bad_request filter"]),
        ("filter[bogus]=x", &["bad_request filter[bogus]"]),
        ("filter[]=x", &["bad_request filter[]"]),
        ("filter[type", &["bad_request filter[type"]),
        ("filter[type][x]=1", &["bad_request filter[type][x]"]),
        ("fields=name", &["bad_request fields"]),
        ("fields[_]=name", &["bad_request fields[_]"]),
        ("fields[problem]=path", &["bad_request fields[problem]"]),
        ("page=1", &["bad_request page"]),
        ("page[bogus]=1", &["bad_request page[bogus]"]),
        ("page[]=1", &["bad_request page[]"]),
        ("page[size]=0", &["invalid_data page[size]"]),
        ("page[size]=-1", &["invalid_data page[size]"]),
        ("page[size]=1.5", &["invalid_data page[size]"]),
        ("page[size]=abc", &["invalid_data page[size]"]),
        ("page[size]=", &["invalid_data page[size]"]),
        ("page[size]=%2B5", &["invalid_data page[size]"]),
        ("page[size]=+5", &["invalid_data page[size]"]),
        ("page[size]=%D9%A5", &["invalid_data page[size]"]),
        ("page[limit]=0", &["invalid_data page[limit]"]),
        ("page[offset]=-1", &["invalid_data page[offset]"]),
        ("page[number]=0", &["invalid_data page[number]"]),
        ("page[after]=nonsense", &["invalid_data page[after]"]),
        ("page[before]=%00", &["invalid_data page[before]"]),
        ("page[after]=&page[before]=", &["invalid_data page[before]"]),
        ("page[after]=&page[offset]=1", &["invalid_data page[offset]"]),
        ("page[after]=&page[limit]=1", &["invalid_data page[limit]"]),
        ("page[after]=&page[number]=1", &["invalid_data page[number]"]),
        ("page[size]=1&page[offset]=1", &["invalid_data page[offset]"]),
        ("page[number]=1&page[limit]=1", &["invalid_data page[limit]"]),
        ("page[number]=1&page[offset]=1", &["invalid_data page[offset]"]),
        ("%ff=1", &["bad_request"]),
        ("filter[name]=%c3", &["bad_request"]),
        ("filter[name]=%ed%a0%80", &["bad_request"]),
        (
            "include=a&sort=x&page[size]=0&foo=",
            &["bad_request include", "bad_request sort", "bad_request foo", "invalid_data page[size]"],
        ),
    ] {
        assert_eq!(refused(raw), faults, "{raw}");
    }
}

#[test]
fn a_page_that_is_too_large_is_refused_under_the_profile_only() {
    let query = Query::parse("page[size]=101").unwrap();
    assert!(list(&query, false).is_ok());
    let error = list(&query, true).unwrap_err();
    let more = error.errors[0].more.as_ref().unwrap();
    assert_eq!(more.page_size_max, Some(100));
    assert!(more.kind_link.unwrap().ends_with("/max-size-exceeded"));
}

#[test]
fn a_path_without_parameters_takes_none() {
    assert!(none(&Query::parse("&").unwrap()).is_ok());
    for raw in ["include=", "fields[document-collection]=name", "x"] {
        assert!(none(&Query::parse(raw).unwrap()).is_err(), "{raw}");
    }
}

#[test]
fn links_keep_everything_but_the_page() {
    let query = Query::parse("sort=-name&page[size]=1&filter[name]=A+%26+B&page%5Bafter%5D=x").unwrap();
    assert_eq!(
        query.with_page(&[("page[offset]", "3".to_owned())]),
        "sort=-name&filter%5Bname%5D=A+%26+B&page%5Boffset%5D=3"
    );
}
